package skald;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.net.InetAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.sql.SQLException;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What the URLs name. */
class ServersTest {
    /** With a new certificate for the host, which it has and trusts. */
    private static SSLContext certified(Path directory, String host) throws Exception {
        Path file = directory.resolve(host);
        assertEquals(0, new ProcessBuilder(System.getProperty("java.home") + "/bin/keytool", "-genkeypair", "-keyalg",
            "EC", "-dname", "CN=" + host, "-ext", "SAN=dns:" + host, "-keystore", file.toString(), "-storepass", "secret")
            .start().waitFor());
        KeyStore store = KeyStore.getInstance(file.toFile(), "secret".toCharArray());
        var keys = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
        keys.init(store, "secret".toCharArray());
        var trusted = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        trusted.init(store);
        SSLContext made = SSLContext.getInstance("TLS");
        made.init(keys.getKeyManagers(), trusted.getTrustManagers(), null);
        return made;
    }

    /** Whether a participant that trusts so says anything to a broker with that certificate. */
    private static boolean isTold(SSLContext broker, SSLContext trusts) throws Exception {
        SSLContext usual = SSLContext.getDefault();
        SSLContext.setDefault(trusts);
        InetAddress here = InetAddress.getByName("localhost");
        try (var listening = broker.getServerSocketFactory().createServerSocket(0, 1, here)) {
            var told = CompletableFuture.supplyAsync(() -> {
                try (var socket = listening.accept()) {
                    return socket.getInputStream().read() >= 0;
                } catch (IOException refused) {
                    return false;
                }
            });
            var participant = Broker.at("amqps://u:cret@localhost:" + listening.getLocalPort());
            assertThrows(IOException.class, participant::newConnection);
            return told.join();
        } finally {
            SSLContext.setDefault(usual);
        }
    }

    @Test
    void withoutAPathTheVirtualHostIsTheUsualOne() throws Exception {
        for (String end : List.of("", "/", "/%2F", "?heartbeat=5", "/?heartbeat=5"))
            assertEquals("/", Broker.at("amqp://localhost" + end).getVirtualHost(), end);
        assertEquals("a", Broker.at("amqp://localhost/a?heartbeat=5").getVirtualHost());
    }

    @Test
    void aBrokerWhoseCertificateIsNotValidGetsNoPassword(@TempDir Path directory) throws Exception {
        SSLContext right = certified(directory, "localhost"), other = certified(directory, "other.example");
        assertEquals(List.of(true, false, false),
            List.of(isTold(right, right), isTold(right, SSLContext.getDefault()), isTold(other, other)));
    }

    /** Says what becomes of a URL, as a process of its own: Java reads its trust store once. */
    public static void main(String[] arguments) throws Exception {
        try {
            Broker.at("amqps://u:cret@localhost");
        } catch (IllegalStateException refused) {
            System.out.print(Text.why(refused));
        }
    }

    @Test
    void aTrustStoreThatCanNotBeReadIsSaid(@TempDir Path directory) throws Exception {
        certified(directory, "localhost");
        Path none = Files.writeString(directory.resolve("none"), "-----BEGIN CERTIFICATE-----");
        for (String store : List.of("localhost", "none")) {
            Process process = new ProcessBuilder(System.getProperty("java.home") + "/bin/java",
                "-Djavax.net.ssl.trustStore=" + directory.resolve(store), "-Djavax.net.ssl.trustStorePassword=mistake",
                "-cp", System.getProperty("java.class.path"), "skald.ServersTest")
                .redirectError(ProcessBuilder.Redirect.INHERIT).start();
            String said = new String(process.getInputStream().readAllBytes());
            assertTrue(said.contains("check javax.net.ssl.trustStore, ")
                && said.contains(store.equals("none") ? "trust store: java.io.EOFException" : "password was incorrect"), said);
            assertFalse(said.contains("mistake") || said.contains("cret@"), said);
        }
    }

    @Test
    void aSettingThatTheDriverWouldNeverTakeIsRefused() {
        for (String wrong : List.of("sslmode=bogus", "gssEncMode=bogus", "channelBinding=bogus", "targetServerType=bogus", "autosave=bogus",
            "protocolVersion=2", "targetServerType=Primary", "channelBinding=Prefer")) {
            String url = "postgresql://u:cret@localhost:1/db?password=cret&" + wrong;
            String said = assertThrows(IllegalArgumentException.class, () -> new Database("payments").open(url), wrong).getMessage();
            assertTrue(said.matches("DATABASE_URL: " + wrong.replace("=", " is one of .*, and not ")), said);
        }
        for (String right : List.of("sslmode=VERIFY-CA", "gssEncMode=disable", "channelBinding=prefer", "targetServerType=preferSlave",
            "autosave=ALWAYS", "protocolVersion=3", "protocolVersion=3.2"))
            assertThrows(SQLException.class, () -> new Database("payments").open("postgresql://u@localhost:1/db?" + right), right);
    }
}
