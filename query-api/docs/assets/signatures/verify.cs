using System.Security.Cryptography;
using System.Text;

static bool IsAuthentic(string secret, string id, string timestamp, string signatures, byte[] body)
{
    if (!long.TryParse(timestamp, out var seconds)) return false;
    if (Math.Abs(DateTimeOffset.UtcNow.ToUnixTimeSeconds() - seconds) > 300) return false;
    var key = Convert.FromBase64String(secret.Replace("whsec_", ""));
    byte[] content = [.. Encoding.UTF8.GetBytes($"{id}.{timestamp}."), .. body];
    var expected = Encoding.UTF8.GetBytes("v1," + Convert.ToBase64String(HMACSHA256.HashData(key, content)));
    return signatures.Split(' ')
        .Any(signature => CryptographicOperations.FixedTimeEquals(Encoding.UTF8.GetBytes(signature), expected));
}
