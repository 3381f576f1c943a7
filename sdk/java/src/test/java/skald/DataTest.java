package skald;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.annotation.JsonCreator;
import com.fasterxml.jackson.annotation.JsonIgnore;
import com.fasterxml.jackson.annotation.JsonProperty;
import com.fasterxml.jackson.annotation.JsonSubTypes;
import com.fasterxml.jackson.annotation.JsonTypeInfo;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.databind.DeserializationContext;
import com.fasterxml.jackson.databind.JsonDeserializer;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.annotation.JsonDeserialize;
import com.fasterxml.jackson.databind.annotation.JsonPOJOBuilder;
import java.io.IOException;
import java.math.BigDecimal;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.junit.jupiter.api.Test;

/** What becomes of a message's data. */
class DataTest extends Shop {
    record Money(long cents) {}

    @Test
    void anAmountThatIsNoWholeNumberOrIsMissingIsMalformed() throws Exception {
        shop.close();
        shop = made("payments").retriable("order", "pay-out", Money.class, (ctx, money) -> assertEquals(12, money.cents()), new Options());
        for (String said : List.of("{\"cents\": 12.99}", "{\"cents\": \"12\"}", "{\"cents\": \"\"}", "{\"cents\": null}", "{}"))
            assertEquals("step.parked", events(message("pay-out", 4, said.replace(" ", ""), bytes(said), false)), said);
        assertEquals("5", one("SELECT count(*) FROM skald.parked WHERE reason = 'malformed'"));
        assertEquals("step.completed", events(message("pay-out", 4, "whole", bytes("{\"cents\": 12}"), false)));
    }

    enum Kind { A, B }

    record Parcel(Kind kind) {}

    @Test
    void anEnumsMemberIsNamed() throws Exception {
        shop.close();
        shop = made("payments").retriable("order", "pay-out", Parcel.class, (ctx, parcel) -> assertEquals(Kind.B, parcel.kind()), new Options());
        for (String said : List.of("1", "\"1\"", "\"\"", "\"C\""))
            assertEquals("step.parked", events(message("pay-out", 4, said, bytes("{\"kind\": " + said + "}"), false)), said);
        assertEquals("step.completed", events(message("pay-out", 4, "named", bytes("{\"kind\": \"B\"}"), false)));
    }

    record Timed(String id, Instant at) {}
    record Perhaps(Optional<String> name) {}
    record Line(long cents, Timed timed) {}
    record Lines(Map<String, List<Line[]>> all) {}
    record Tree(BigDecimal cents, List<Tree> below) {}
    record Any(Object one, Number two, CharSequence three, Comparable<?> four, JsonNode five, Iterable<Kind> six) {}
    @JsonTypeInfo(use = JsonTypeInfo.Id.CLASS) interface Named {}
    record Holder(Named named, Runnable runs) {}
    final class Inner {}
    static final class Fields { public String id; public long cents; }
    static final class Setters {
        private long cents;
        public void setCents(long cents) { this.cents = cents; }
        public long getCents() { return cents; }
    }
    @JsonDeserialize(builder = Built.Builder.class) static final class Built {
        @JsonPOJOBuilder(withPrefix = "") static final class Builder {
            public Builder paid(boolean paid) { return this; }
            public Built build() { return new Built(); }
        }
    }
    record Below(Map<String, List<Fields>> all) {}
    static final class Created {
        public Long tip;
        @JsonIgnore public int lines;
        @JsonCreator Created(@JsonProperty("cents") long cents) {}
    }
    @JsonTypeInfo(use = JsonTypeInfo.Id.NAME) @JsonSubTypes(@JsonSubTypes.Type(value = Card.class, name = "card")) interface Pay {}
    static final class Card implements Pay { public long cents; }
    record Paid(Pay pay) {}
    record Told(@JsonDeserialize(using = FromNumber.class) Instant at, @JsonIgnore Optional<String> name) {}
    static final class FromNumber extends JsonDeserializer<Instant> {
        @Override public Instant deserialize(JsonParser from, DeserializationContext context) throws IOException {
            return Instant.ofEpochSecond(from.getLongValue());
        }
    }

    @Test
    void aClassThatCanNotBeReadIsRefused() {
        for (Class<?> type : List.of(Timed.class, Instant.class, Perhaps.class, Optional.class, Lines.class, Runnable.class, Inner.class)) {
            String said = assertThrows(IllegalArgumentException.class,
                () -> made("payments").pivot("order", "charge", type, (ctx, data) -> {}, new Options()), type.toString()).getMessage();
            assertTrue(said.startsWith("step order/charge: Jackson can't read "), said);
        }
        assertTrue(assertThrows(IllegalArgumentException.class, () -> Data.check("order/charge", Lines.class)).getMessage()
            .contains("$Lines.all.timed.at, of the type java.time.Instant: "));
        for (Class<?> type : List.of(Tree.class, Any.class, Named.class, Holder.class, Told.class, Created.class, Object.class, Map.class, String.class, long.class,
            byte[].class, List.class, Kind.class, JsonNode.class))
            made("payments").pivot("order", "charge", type, (ctx, data) -> {}, new Options());
    }

    @Test
    void aClassThatWouldNotMissAnAmountIsRefused() throws Exception {
        for (Class<?> type : List.of(Fields.class, Setters.class, Built.class, Below.class)) {
            String said = assertThrows(IllegalArgumentException.class, () -> Data.check("order/charge", type), type.toString()).getMessage();
            assertTrue(said.startsWith("step order/charge: Jackson can't read " + type.getName() + ": it would not say that "), said);
            assertTrue(said.endsWith(type == Built.class ? "paid is missing: make Builder a record, or paid a Boolean"
                : "cents is missing: make " + (type == Setters.class ? "Setters" : "Fields") + " a record, or cents a Long"), said);
        }
        shop.close();
        shop = made("payments").retriable("order", "pay-out", Paid.class, (ctx, data) -> {}, new Options());
        assertEquals("step.failed", events(message("pay-out", 4, "a", bytes("{\"pay\": {\"@type\": \"card\"}}"), false)));
    }

    @Test
    void whatIsTheClasssFaultIsTriedAgain() throws Exception {
        shop.close();
        shop = made("payments").retriable("order", "pay-out", Holder.class, (ctx, data) -> {}, new Options());
        assertEquals("step.completed step.failed", events(message("pay-out", 4, "a", bytes("{}"), false),
            message("pay-out", 4, "b", bytes("{\"runs\": {}}"), false)));
        assertEquals("0", one("SELECT count(*) FROM skald.parked"));
    }
}
