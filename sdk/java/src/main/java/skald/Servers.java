package skald;

import static skald.Text.why;

import com.rabbitmq.client.ConnectionFactory;
import java.net.URI;
import java.net.URLDecoder;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.KeyStore;
import java.security.NoSuchAlgorithmException;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.SQLException;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;
import org.postgresql.Driver;
import org.postgresql.PGProperty;

/** What AMQP_URL and DATABASE_URL name. */
final class Servers {
    private static final String host = "(?:\\[[^]@/?]*]|[^@/?:,]*)(?::[0-9]{1,5})?";
    private static final Pattern libpq = Pattern.compile("(?s)(?!.*%(?!\\p{XDigit}{2}))(?:jdbc:)?postgres(?:ql)?://"
        + "(?:(?<user>[^:@/]*)(?::(?<password>[^@/]*))?@)?(?<rest>" + host + "(?:," + host + ")*/[^@/?]*(?:\\?.*)?)");
    // Of a wrong one the driver says that it can't connect, as it does of a server that is away.
    private static final List<PGProperty> chosen = List.of(PGProperty.SSL_MODE, PGProperty.GSS_ENC_MODE,
        PGProperty.CHANNEL_BINDING, PGProperty.TARGET_SERVER_TYPE, PGProperty.PROTOCOL_VERSION, PGProperty.AUTOSAVE);
    private static final Set<PGProperty> exact = Set.of(PGProperty.CHANNEL_BINDING, PGProperty.TARGET_SERVER_TYPE); // to the case

    private Servers() {}

    static ConnectionFactory broker(String named) throws NoSuchAlgorithmException {
        ConnectionFactory made = read(named);
        if (made.getVirtualHost().isEmpty()) made.setVirtualHost("/"); // with a slash that nothing follows, too
        if (made.isSSL()) { // and trusts every certificate, as the library has it
            made.useSslProtocol(SSLContext.getDefault());
            made.enableHostnameVerification();
        }
        return made;
    }

    private static ConnectionFactory read(String named) {
        ConnectionFactory made = new ConnectionFactory();
        made.setAutomaticRecoveryEnabled(false);
        try {
            URI url = new URI(String.valueOf(named));
            made.setUri(url);
            // Of a host that can't be read, the library says nothing, and takes localhost; a second @ is a password's.
            if (named.matches("amqps?://(?![^?]*@[^?]*@).+")
                && (url.getHost() != null || url.getRawAuthority() == null)) return made;
        } catch (GeneralSecurityException untrusted) {
            throw new IllegalStateException("no broker's certificate can be verified: check javax.net.ssl.trustStore,"
                + " javax.net.ssl.keyStore and their passwords: " + why(causeOf(untrusted)));
        } catch (Exception unread) {
            // It may quote the password.
        }
        throw new IllegalArgumentException("AMQP_URL is not the URL of a broker, such as"
            + " amqp://user:password@host:5672/vhost: a password's @, : and / are written %40, %3A, %2F,"
            + " and a host has no _");
    }

    /** Java's own context says of a trust store that it can't be read, and not why. */
    private static Exception causeOf(GeneralSecurityException untrusted) {
        try {
            TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm()).init((KeyStore) null);
            return untrusted;
        } catch (GeneralSecurityException unread) {
            return unread;
        }
    }

    static Connection database(String named, String service) throws SQLException {
        Matcher read = libpq.matcher(String.valueOf(named));
        // The driver quotes what it can't read, with the password.
        String url = read.matches() ? "jdbc:postgresql://" + read.group("rest") : "";
        Properties parsed = Driver.parseURL(url, new Properties()), settings = new Properties();
        if (parsed == null) throw new IllegalArgumentException("DATABASE_URL is not"
            + " postgresql://USER:PASSWORD@HOST:PORT/DATABASE: a password's %, @ and / are written %25, %40, %2F");
        for (PGProperty setting : chosen) {
            String value = setting.getOrDefault(parsed);
            List<String> choices = setting == PGProperty.PROTOCOL_VERSION ? List.of("3", "3.0", "3.2") : List.of(setting.getChoices());
            if (value != null && choices.stream().noneMatch(exact.contains(setting) ? value::equals : value::equalsIgnoreCase))
                throw new IllegalArgumentException("DATABASE_URL: " + setting.getName() + " is one of "
                    + String.join(", ", choices) + ", and not " + value);
        }
        for (String name : List.of("user", "password")) {
            String part = read.group(name);
            if (part != null) settings.put(name, URLDecoder.decode(part.replace("+", "%2B"), StandardCharsets.UTF_8));
        }
        settings.putAll(Map.of("ApplicationName", "skald/" + service, "tcpKeepAlive", "true", "socketTimeout", "45",
            "targetServerType", "primary"));
        // In the URL, which takes precedence: there it may have some of its own.
        String options = parsed.getProperty("options", "") + " -c lock_timeout=5000 -c statement_timeout=30000"
            + " -c idle_in_transaction_session_timeout=30000 -c default_transaction_isolation=read\\ committed";
        Connection made = DriverManager.getConnection(url + (url.contains("?") ? "&" : "?") + "options="
            + URLEncoder.encode(options, StandardCharsets.UTF_8), settings);
        made.setAutoCommit(false);
        return made;
    }
}
