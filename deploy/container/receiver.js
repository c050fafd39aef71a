// Receives webhooks on port 9000 of the container `webhooks`, and prints them. See trial.md.
require("node:http")
  .createServer((request, response) => {
    request.on("end", () => console.log()).pipe(process.stdout, { end: false });
    response.writeHead(204).end();
  })
  .listen(9000, "127.0.0.1");
