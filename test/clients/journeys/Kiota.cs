// Journey with the client of Kiota, which is generated into the folder Partner.
using Microsoft.Kiota.Abstractions;
using Microsoft.Kiota.Abstractions.Authentication;
using Microsoft.Kiota.Http.HttpClientLibrary;
using Microsoft.Kiota.Http.HttpClientLibrary.Middleware.Options;
using Partner;
using Partner.Models;

string Read(string name) => Environment.GetEnvironmentVariable(name) ?? "";
PartnerClient Connect(IAuthenticationProvider authentication) =>
    new(new HttpClientRequestAdapter(authentication) { BaseUrl = Read("API") });

var exchange = await Connect(new AnonymousAuthenticationProvider()).Oauth.Token.PostAsync(new ExchangeTokenRequest
{
    ClientId = Guid.Parse(Read("CLIENT_ID")),
    ClientSecret = Read("CLIENT_SECRET"),
    GrantType = "client_credentials",
    Environment = ExchangeTokenRequest_environment.Sandbox,
});
var client = Connect(new BaseBearerTokenAuthenticationProvider(new FixedToken(exchange!.AccessToken!)));

var sandbox = (await client.Sandbox.GetAsync())!.Sandbox!;
void AddClinic(RequestHeaders headers) => headers.Add("X-SERVICE-Clinic-ID", sandbox.ClinicId.ToString()!);
var context = await client.Clinic.Context.GetAsync(request => AddClinic(request.Headers));
Console.WriteLine($"context {context!.Clinic!.Name}");

var responseHeaders = new HeadersInspectionHandlerOption { InspectResponseHeaders = true };
async Task<Appointment> Create(int days)
{
    var body = new CreatePartnerAppointmentRequest
    {
        BranchId = context.Branches![0].Id,
        AnimalId = sandbox.Animals![0].Id,
        ScheduledAt = DateTimeOffset.UtcNow.AddDays(days),
    };
    var result = await client.Appointments.PostAsync(body, request =>
    {
        AddClinic(request.Headers);
        request.Headers.Add("Idempotency-Key", Guid.NewGuid().ToString());
        request.Options.Add(responseHeaders);
    });
    return result!.Appointment!;
}
var appointment = await Create(1);
Console.WriteLine($"created {appointment.Status.ToString()!.ToLowerInvariant()}");

var position = responseHeaders.ResponseHeaders["X-SERVICE-Log-Position"].First();
var list = await client.Appointments.GetAsync(request =>
{
    AddClinic(request.Headers);
    request.Headers.Add("X-SERVICE-Log-Position", position);
    request.QueryParameters.Limit = 250;
});
var isListed = list!.Appointments!.Any(item => item.Id == appointment.Id);
Console.WriteLine($"listed {isListed.ToString().ToLowerInvariant()}");

var registration = await client.WebhookEndpoints.PostAsync(
    new CreateWebhookEndpointRequest
    {
        Url = "http://127.0.0.1:9/hooks",
        Events = [CreateWebhookEndpointRequest_events.AppointmentCreated],
    },
    request => AddClinic(request.Headers));
Console.WriteLine($"endpoint {registration!.Endpoint!.Status.ToString()!.ToLowerInvariant()}");

try
{
    await Create(-1);
}
catch (ApiException error)
{
    Console.WriteLine($"refused {error.ResponseStatusCode}");
}

class FixedToken(string token) : IAccessTokenProvider
{
    public AllowedHostsValidator AllowedHostsValidator { get; } = new();

    public Task<string> GetAuthorizationTokenAsync(
        Uri uri, Dictionary<string, object>? context = null, CancellationToken cancellationToken = default) =>
        Task.FromResult(token);
}
