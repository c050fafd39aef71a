// Renders each section's OpenAPI document. The page sends no requests, so it must not ask for credentials.
const referenceOnly = () => ({
  wrapComponents: { authorizeBtn: () => () => null, authorizeOperationBtn: () => () => null },
});

// When the browser handled the address's fragment, its element did not exist yet.
const scrollToFragment = () => document.getElementById(location.hash.slice(1))?.scrollIntoView();

for (const section of document.querySelectorAll("[data-document]")) {
  globalThis.SwaggerUIBundle({
    domNode: section,
    url: section.dataset.document,
    plugins: [referenceOnly],
    supportedSubmitMethods: [],
    validatorUrl: null,
    docExpansion: "list",
    defaultModelsExpandDepth: 0,
    defaultModelRendering: "model",
    showCommonExtensions: true,
    onComplete: scrollToFragment,
  });
}
