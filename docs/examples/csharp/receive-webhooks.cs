#:sdk Microsoft.NET.Sdk.Web
#:property PublishAot=false
// Receives webhooks, verifies their signatures and prints the events.
using System.Collections.Concurrent;
using System.Security.Cryptography;
using System.Text;
using System.Text.Json;

const int MaxAgeSeconds = 300;
var secret = Environment.GetEnvironmentVariable("WEBHOOK_SECRET")!;
var key = Convert.FromBase64String(secret.Replace("whsec_", ""));

bool IsAuthentic(IHeaderDictionary headers, byte[] body)
{
    string id = headers["webhook-id"].ToString(), timestamp = headers["webhook-timestamp"].ToString();
    if (!long.TryParse(timestamp, out var seconds)) return false;
    if (Math.Abs(DateTimeOffset.UtcNow.ToUnixTimeSeconds() - seconds) > MaxAgeSeconds) return false;
    byte[] content = [.. Encoding.UTF8.GetBytes($"{id}.{timestamp}."), .. body];
    var expected = Encoding.UTF8.GetBytes("v1," + Convert.ToBase64String(HMACSHA256.HashData(key, content)));
    return headers["webhook-signature"].ToString().Split(' ')
        .Any(signature => CryptographicOperations.FixedTimeEquals(Encoding.UTF8.GetBytes(signature), expected));
}

// In production, store the ids in a table with a unique key.
var handledIds = new ConcurrentDictionary<string, bool>();

var builder = WebApplication.CreateBuilder(args);
builder.Logging.ClearProviders();
var app = builder.Build();
app.MapPost("/{**path}", async (HttpRequest request) =>
{
    using var buffer = new MemoryStream();
    await request.Body.CopyToAsync(buffer);
    if (!IsAuthentic(request.Headers, buffer.ToArray())) return Results.StatusCode(400);
    if (handledIds.TryAdd(request.Headers["webhook-id"].ToString(), true))
    {
        var webhook = JsonSerializer.Deserialize<JsonElement>(buffer.ToArray());
        Console.WriteLine($"{webhook.GetProperty("type")} {webhook.GetProperty("id")}");
    }
    return Results.StatusCode(204);
});
app.Run($"http://127.0.0.1:{Environment.GetEnvironmentVariable("PORT") ?? "9000"}");
