<?php
// Gets an access token, reads the sandbox and creates an appointment.
declare(strict_types=1);

/** Sends a request. After 429 and 503, waits and repeats it. This is safe: see "Idempotency" in the guide. */
function call(string $method, string $path, array $headers, ?array $body = null): array
{
    $http = ['method' => $method, 'header' => $headers, 'ignore_errors' => true, 'timeout' => 30];
    if ($body !== null) {
        $http['header'][] = 'Content-Type: application/json';
        $http['content'] = json_encode($body, JSON_THROW_ON_ERROR);
    }
    for ($attempt = 1; ; $attempt++) {
        $stream = fopen(getenv('API') . $path, 'r', false, stream_context_create(['http' => $http]));
        $response = stream_get_contents($stream);
        $responseHeaders = stream_get_meta_data($stream)['wrapper_data'];
        $status = (int) explode(' ', $responseHeaders[0])[1];
        if ($status < 300) {
            return json_decode($response, true, 512, JSON_THROW_ON_ERROR);
        }
        if (!in_array($status, [429, 503], true) || $attempt === 5) {
            throw new RuntimeException("$method $path: $status $response");
        }
        $retryAfter = preg_grep('/^Retry-After:/i', $responseHeaders);
        sleep($retryAfter ? (int) substr(end($retryAfter), strlen('Retry-After:')) : 1);
    }
}

$token = call('POST', '/oauth/token', [], [
    'client_id' => getenv('CLIENT_ID'),
    'client_secret' => getenv('CLIENT_SECRET'),
    'grant_type' => 'client_credentials',
    'environment' => 'sandbox',
])['access_token'];

$authorization = "Authorization: Bearer $token";
$sandbox = call('GET', '/sandbox', [$authorization])['sandbox'];

$headers = [
    $authorization,
    "X-SERVICE-Clinic-ID: {$sandbox['clinicId']}",
    // Store the key with your booking, so that a retry after a crash uses the same key.
    'Idempotency-Key: ' . bin2hex(random_bytes(16)),
];
$appointment = call('POST', '/appointments', $headers, [
    'branchId' => $sandbox['branches'][0]['id'],
    'animalId' => $sandbox['animals'][0]['id'],
    'scheduledAt' => gmdate('Y-m-d\TH:i:s\Z', time() + 86400),
    'notes' => 'Vaccination',
])['appointment'];
echo "{$appointment['id']} {$appointment['status']}\n";
