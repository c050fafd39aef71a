// Renders each section's OpenAPI document. It is a reference: nothing is sent from it, so nothing asks for credentials.
const referenceOnly = () => ({
  wrapComponents: { authorizeBtn: () => () => null, authorizeOperationBtn: () => () => null },
});

// The browser looked for what the address names before it was there.
const showWhatIsNamed = () => document.getElementById(location.hash.slice(1))?.scrollIntoView();

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
    onComplete: showWhatIsNamed,
  });
}
