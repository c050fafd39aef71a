import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.time.Instant;
import java.util.Base64;
import java.util.stream.Stream;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

class WebhookSignature {
    static boolean isAuthentic(String secret, String id, String timestamp, String signatures, byte[] body)
            throws GeneralSecurityException {
        if (!timestamp.matches("\\d{1,12}")) return false;
        if (Math.abs(Instant.now().getEpochSecond() - Long.parseLong(timestamp)) > 300) return false;
        byte[] key = Base64.getDecoder().decode(secret.replace("whsec_", ""));
        Mac mac = Mac.getInstance("HmacSHA256");
        mac.init(new SecretKeySpec(key, "HmacSHA256"));
        mac.update((id + "." + timestamp + ".").getBytes());
        byte[] expected = ("v1," + Base64.getEncoder().encodeToString(mac.doFinal(body))).getBytes();
        return Stream.of(signatures.split(" "))
                .anyMatch(signature -> MessageDigest.isEqual(signature.getBytes(), expected));
    }
}
