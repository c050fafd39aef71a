/** Style sheet of the printable disclosure. It contains no characters that HTML would interpret in a style element. */
export const DISCLOSURE_STYLE = `
:root { color-scheme: light; }
* { box-sizing: border-box; }
body { max-width: 70rem; margin: 0 auto; padding: 1.5rem; color: #17292b; background: #fff;
  font: 1rem / 1.5 system-ui, "Segoe UI", Roboto, "Liberation Sans", sans-serif; }
h1 { margin: 0; font-size: 1.6rem; }
h2 { margin: 2rem 0 0.5rem; font-size: 1.2rem; border-bottom: 2px solid #0f5c63; }
p { margin: 0.4rem 0; }
small { display: block; color: #4c6265; font-size: 0.85em; }
dl { display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: 0.1rem 1rem; margin: 0.75rem 0 0; }
dt { color: #4c6265; }
dd { margin: 0; overflow-wrap: anywhere; }
.note { padding: 0.5rem 0.75rem; border-left: 4px solid #4c6265; background: #eef3f3; }
.scroll { overflow-x: auto; }
table { width: 100%; border-collapse: collapse; font-size: 0.85rem; }
th, td { padding: 0.3rem 0.6rem 0.3rem 0; border-bottom: 1px solid #b9c6c8; text-align: left; vertical-align: top; }
td { overflow-wrap: break-word; white-space: pre-line; }
.text { overflow-wrap: anywhere; }
@media (max-width: 40rem) {
  body { padding: 0.75rem; }
  dl { grid-template-columns: minmax(0, 1fr); }
  table { min-width: 44rem; }
}
@page { size: A4; margin: 15mm; }
@media print {
  body { max-width: none; padding: 0; font-size: 10pt; }
  .scroll { overflow: visible; }
  table { font-size: 8pt; }
  thead { display: table-header-group; }
  tr { break-inside: avoid; }
  h2 { break-after: avoid; }
}
`;
