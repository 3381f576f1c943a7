package skald;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.List;
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
}
