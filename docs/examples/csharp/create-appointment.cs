#:property PublishAot=false
// Gets an access token, reads the sandbox and creates an appointment.
using System.Net;
using System.Net.Http.Json;
using System.Text.Json;

var api = Environment.GetEnvironmentVariable("API");
using var client = new HttpClient { Timeout = TimeSpan.FromSeconds(30) };

// Sends a request. After 429 and 503, waits and repeats it. This is safe: see "Idempotency" in the guide.
async Task<JsonElement> Call(HttpMethod method, string path, Dictionary<string, string> headers, object? body = null)
{
    for (var attempt = 1; ; attempt++)
    {
        using var request = new HttpRequestMessage(method, api + path);
        if (body is not null) request.Content = JsonContent.Create(body);
        foreach (var (name, value) in headers) request.Headers.Add(name, value);
        using var response = await client.SendAsync(request);
        if (response.IsSuccessStatusCode) return await response.Content.ReadFromJsonAsync<JsonElement>();
        var canRetry = response.StatusCode is HttpStatusCode.TooManyRequests or HttpStatusCode.ServiceUnavailable;
        if (!canRetry || attempt == 5)
            throw new Exception($"{method} {path}: {response.StatusCode} {await response.Content.ReadAsStringAsync()}");
        await Task.Delay(response.Headers.RetryAfter?.Delta ?? TimeSpan.FromSeconds(1));
    }
}

var token = await Call(HttpMethod.Post, "/oauth/token", [], new
{
    client_id = Environment.GetEnvironmentVariable("CLIENT_ID"),
    client_secret = Environment.GetEnvironmentVariable("CLIENT_SECRET"),
    grant_type = "client_credentials",
    environment = "sandbox",
});

var headers = new Dictionary<string, string> { ["Authorization"] = $"Bearer {token.GetProperty("access_token")}" };
var sandbox = (await Call(HttpMethod.Get, "/sandbox", headers)).GetProperty("sandbox");

headers["X-SERVICE-Clinic-ID"] = sandbox.GetProperty("clinicId").GetString()!;
// Store the key with your booking, so that a retry after a crash uses the same key.
headers["Idempotency-Key"] = Guid.NewGuid().ToString();
var response = await Call(HttpMethod.Post, "/appointments", headers, new
{
    branchId = sandbox.GetProperty("branches")[0].GetProperty("id"),
    animalId = sandbox.GetProperty("animals")[0].GetProperty("id"),
    scheduledAt = DateTimeOffset.UtcNow.AddDays(1),
    notes = "Vaccination",
});
var appointment = response.GetProperty("appointment");
Console.WriteLine($"{appointment.GetProperty("id")} {appointment.GetProperty("status")}");
