package skald;

import com.rabbitmq.client.LongString;
import java.nio.ByteBuffer;
import java.nio.CharBuffer;
import java.nio.charset.CharsetDecoder;
import java.nio.charset.CoderResult;
import java.nio.charset.StandardCharsets;
import java.util.Collections;
import java.util.Date;
import java.util.IdentityHashMap;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.regex.Pattern;

/** Of what came, for the database and the log. */
final class Text {
    private Text() {}

    /** As text. What has no text form is left out: then take() says which header is missing. */
    static Map<String, String> texts(Map<String, Object> headers) {
        Map<String, String> made = new TreeMap<>();
        (headers == null ? Map.<String, Object>of() : headers).forEach((name, value) -> {
            if (value instanceof Date date) value = date.getTime() / 1000;
            boolean isPlain = value instanceof String || String.valueOf(value).matches("-?[0-9]+|true|false");
            byte[] bytes = value instanceof LongString s ? s.getBytes() : value instanceof byte[] b ? b : isPlain ? utf8(value.toString()) : null;
            if (bytes != null) made.put(text(utf8(name)), text(bytes));
        });
        return made;
    }

    static byte[] utf8(String value) { return (value == null ? "" : value).getBytes(StandardCharsets.UTF_8); }

    /** What strangers have sent begins no line of the log. */
    static String line(String said) {
        return Pattern.compile("[\\x00-\\x1f\\x7f-\\x9f]").matcher(said).replaceAll(bad -> String.format("\\\\x%02x", (int) bad.group().charAt(0)));
    }

    /** An exception on one line of the log: with its causes, as a library's own may say no more than that it failed. */
    static String why(Throwable error) {
        String said = error.toString();
        int deepest = 16; // one may be its own cause
        for (Throwable cause = error.getCause(); cause != null && --deepest > 0; cause = cause.getCause())
            if (!said.contains(cause.toString())) said += ": " + cause;
        return line(said);
    }

    /** An exception for the log, which prints what it and its causes say: in that, PostgreSQL quotes what came. Its frames stay lines. */
    static final class Said extends Exception {
        static Said of(Throwable error) { return of(error, Collections.newSetFromMap(new IdentityHashMap<>())); }

        /** Each once: one may be its own cause. */
        private static Said of(Throwable error, Set<Throwable> seen) {
            return error == null || seen.size() == 32 || !seen.add(error) ? null : new Said(error, seen);
        }

        private Said(Throwable error, Set<Throwable> seen) {
            super(line(error.toString()), of(error.getCause(), seen)); // its type is not this one's
            setStackTrace(error.getStackTrace());
            for (Throwable other : error.getSuppressed()) {
                Said said = of(other, seen);
                if (said != null) addSuppressed(said);
            }
        }

        @Override
        public String toString() { return getMessage(); }
    }

    /** What a text column takes: bytes that are no UTF-8 as \xNN. */
    static String text(byte[] bytes) {
        ByteBuffer in = ByteBuffer.wrap(bytes);
        CharBuffer out = CharBuffer.allocate(bytes.length * 4);
        CharsetDecoder decoder = StandardCharsets.UTF_8.newDecoder();
        for (CoderResult result; (result = decoder.decode(in, out, true)).isMalformed();)
            for (int i = 0; i < result.length(); ++i) out.put(String.format("\\x%02x", in.get()));
        return out.flip().toString().replace("\0", "\\x00");
    }
}
