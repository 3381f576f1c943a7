package skald;

import static skald.Text.why;

import com.rabbitmq.client.AMQP;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.Delivery;
import com.rabbitmq.client.ShutdownSignalException;
import java.io.IOException;
import java.net.URI;
import java.security.GeneralSecurityException;
import java.security.KeyStore;
import java.security.NoSuchAlgorithmException;
import java.util.List;
import java.util.Map;
import java.util.Set;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

/** What AMQP_URL names, and the queues. */
final class Broker {
    static final String escapes = ": a password's %, @, : and / are written %25, %40, %3A, %2F";

    private Broker() {}

    static ConnectionFactory at(String named) throws NoSuchAlgorithmException {
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
            + " amqp://user:password@host:5672/vhost" + escapes + ", and a host has no _");
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

    /** The queues of docs/protocol.md, "Routing". The first is bound to this database: a process with another one is refused. So it is where
     * `skald declare` has made them: there each of its databases has a queue of that name. */
    static void declareQueues(Channel channel, String service, String database, boolean declare) throws Exception {
        String queue = "skald." + service;
        Map<String, Object> left = Map.of("x-queue-type", "quorum", "x-dead-letter-exchange", "skald.parked", "x-dead-letter-routing-key", database);
        Map<String, Object> limited = Map.of("x-queue-type", "quorum", "x-dead-letter-exchange", "skald.parked", "x-dead-letter-routing-key", service,
            "x-delivery-limit", 50, "x-dead-letter-strategy", "at-least-once", "x-overflow", "reject-publish");
        try {
            if (declare) channel.queueDeclare(queue + ".database", true, false, false, left);
            else channel.queueDeclarePassive(queue + ".database." + database);
        } catch (IOException refused) {
            Throwable why = refused.getCause();
            boolean isAnothers = why instanceof ShutdownSignalException ended
                && ended.getReason() instanceof AMQP.Channel.Close said && Set.of(404, 406).contains(said.getReplyCode());
            throw !isAnothers ? refused : new IllegalStateException("the messages for " + service + " belong to another database than"
                + " the DATABASE_URL's (" + database + "), or none was declared: check it, or run `skald declare` (" + why + ")", refused);
        }
        for (String suffix : declare ? List.of(".parked", "") : List.<String>of()) {
            channel.queueDeclare(queue + suffix, true, false, false, suffix.isEmpty() ? limited : Map.of("x-queue-type", "quorum"));
            channel.exchangeDeclare("skald" + suffix, "direct", true);
            channel.queueBind(queue + suffix, "skald" + suffix, service);
        }
    }

    /** What a policy or another client has put into the parked queue is processed; once, because that queue counts no deliveries. */
    static boolean isLimit(Delivery message) {
        var headers = message.getProperties().getHeaders();
        return message.getEnvelope().isRedeliver() || headers != null && "delivery_limit".equals(String.valueOf(headers.get("x-first-death-reason")));
    }
}
