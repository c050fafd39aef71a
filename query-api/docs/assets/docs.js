// Renders an OpenAPI document in each section. The page sends no requests, so it hides the buttons for credentials.
const hideAuthorization = () => ({
  wrapComponents: { authorizeBtn: () => () => null, authorizeOperationBtn: () => () => null },
});

// The browser handles the URL's fragment before the operations are rendered, so the page scrolls to it again.
const scrollToFragment = () => document.getElementById(location.hash.slice(1))?.scrollIntoView();

for (const section of document.querySelectorAll("[data-document]")) {
  globalThis.SwaggerUIBundle({
    domNode: section,
    url: section.dataset.document,
    plugins: [hideAuthorization],
    supportedSubmitMethods: [],
    validatorUrl: null,
    docExpansion: "list",
    defaultModelsExpandDepth: 0,
    defaultModelRendering: "model",
    showCommonExtensions: true,
    onComplete: scrollToFragment,
  });
}
