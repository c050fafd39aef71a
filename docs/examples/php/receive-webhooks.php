<?php
// Receives webhooks, verifies their signatures and prints the events. PHP runs this file once for each request.
declare(strict_types=1);

const MAX_AGE_SECONDS = 300;

function isAuthentic(string $id, string $timestamp, string $signatures, string $body): bool
{
    if (!ctype_digit($timestamp) || abs(time() - (int) $timestamp) > MAX_AGE_SECONDS) {
        return false;
    }
    $key = base64_decode(preg_replace('/^whsec_/', '', getenv('WEBHOOK_SECRET')));
    $expected = 'v1,' . base64_encode(hash_hmac('sha256', "$id.$timestamp.$body", $key, true));
    foreach (explode(' ', $signatures) as $signature) {
        if (hash_equals($expected, $signature)) {
            return true;
        }
    }
    return false;
}

$body = file_get_contents('php://input');
$id = $_SERVER['HTTP_WEBHOOK_ID'] ?? '';
$timestamp = $_SERVER['HTTP_WEBHOOK_TIMESTAMP'] ?? '';
if (!isAuthentic($id, $timestamp, $_SERVER['HTTP_WEBHOOK_SIGNATURE'] ?? '', $body)) {
    http_response_code(400);
    return;
}
// Creating a file fails if it exists. In production, store the ids in a table with a unique key.
if (@fopen(sys_get_temp_dir() . "/webhook-$id", 'x')) {
    $event = json_decode($body, true, 512, JSON_THROW_ON_ERROR);
    file_put_contents('php://stdout', "{$event['type']} {$event['id']}\n");
}
http_response_code(204);
