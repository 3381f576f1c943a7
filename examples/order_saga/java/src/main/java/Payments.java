import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import skald.Context;
import skald.Options;
import skald.Participant;
import skald.Reject;

/** The service `payments` of the order saga in Java, in the place of payment_service: scripts/demo.sh --payments java. */
final class Payments {
    record Order(String id, String customer, long cents) {}

    static void charge(Context ctx, Order order) throws SQLException {
        int paid = ctx.update("UPDATE wallet SET cents = cents - ? WHERE customer = ? AND cents >= ?", order.cents(), order.customer(), order.cents());
        if (paid == 0) throw new Reject("insufficient funds");
        noteCharge(ctx, order, "charge");
    }

    static void refund(Context ctx, Order order) throws SQLException {
        ctx.update("UPDATE wallet SET cents = cents + ? WHERE customer = ?", order.cents(), order.customer());
        noteCharge(ctx, order, "refund");
    }

    static void noteCharge(Context ctx, Order order, String kind) throws SQLException {
        ctx.update("INSERT INTO charge (order_id, customer, cents, kind) VALUES (?, ?, ?, ?)", order.id(), order.customer(), order.cents(), kind);
    }

    static void makeTables(Connection database) throws Exception {
        try (database; Statement statement = database.createStatement(); ResultSet rows = statement.executeQuery("SELECT to_regclass('wallet')")) {
            rows.next();
            if (rows.getString(1) == null) statement.execute(Files.readString(Path.of(System.getenv("PAYMENTS_TABLES"))));
            database.commit();
        }
    }

    public static void main(String[] arguments) throws Exception {
        Participant payments = new Participant("payments")
            .compensatable("place-order", "charge-payment", Order.class, Payments::charge, Payments::refund, new Options());
        payments.connect(); // says if this is another service's database, before anything is made in it
        makeTables(payments.open());
        payments.run();
    }
}
