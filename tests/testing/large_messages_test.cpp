// Messages that are too large for a row of the outbox, in the kit: tried again, sent, parked and refused.
#include <skald/testing.hpp>

#include <doctest/doctest.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace {

using skald::testing::rows;

constexpr std::size_t mib = 1024 * 1024;

struct document
{
    std::string id;
    std::string text;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(document, id, text)

std::string written(std::string const& id, std::size_t bytes)
{
    return nlohmann::json(document{id, std::string(bytes, 'x')}).dump();
}

/// A service with one handler, whose key is in the body.
struct archive : skald::testing::harness
{
    using code = std::function<void(skald::message_context&, document const&)>;

    explicit archive(code handle)
    {
        skald::service s{"archive"};
        s.migrate("0001_archive", "CREATE TABLE filed (id text, size bigint, whole bigint)");
        skald::message_options options;
        options.key = skald::message_key::members({"/id"});
        s.on<document>(
            "document",
            [this, handle](skald::message_context& ctx, document const& d) {
                ++runs;
                handle(ctx, d);
                ctx.sql("INSERT INTO filed VALUES ($1, $2, $3)", d.id, d.text.size(), ctx.message().body.size());
            },
            options);
        add(std::move(s));
    }

    void send_document(std::string body, std::vector<std::pair<std::string, std::string>> headers = {})
    {
        skald::received_message m;
        m.id = "m-1";
        m.body = std::move(body);
        m.headers = std::move(headers);
        send("archive", "document", m);
    }
    void try_all()
    {
        for (int n = 0; n < 20; ++n) {
            deliver_all();
            advance(std::chrono::minutes{10});
        }
    }
    std::string one(std::string const& sql) { return ask("archive", sql).at(0); }

    int runs = 0;
};

void file_it(skald::message_context&, document const&) {}

}  // namespace

TEST_CASE("a large message is tried again by reference, and a copy of it that comes as it was is the same message")
{
    archive a{[](skald::message_context& ctx, document const&) {
        if (ctx.attempt() < 3) throw std::runtime_error{"jammed"};
    }};
    auto const body = written("d-1", mib + mib / 2);
    a.send_document(body);
    a.try_all();
    CHECK(a.runs == 3);
    int references = 0;
    for (auto const& sent : a.sent()) references += sent.destination == "archive.on.document" && sent.body.empty();
    CHECK(references == 2);
    CHECK(a.ask("archive", "SELECT id, size, whole FROM filed") ==
          rows{"d-1 | " + std::to_string(mib + mib / 2) + " | " + std::to_string(body.size())});
    a.send_document(body);
    a.try_all();
    CHECK(a.runs == 3);
    CHECK(a.one("SELECT count(*) FROM skald.parked") == "0");
    CHECK(a.one("SELECT count(*) FROM skald.body") == "1");
}

TEST_CASE("a message of almost 64 MiB from a handler gets to another handler of its service, and runs there once")
{
    archive a{[](skald::message_context& ctx, document const& d) {
        if (d.id == "d-1") ctx.publish("archive.on.document", "grown", document{"d-2", std::string(60 * mib, 'y')});
    }};
    a.send_document(written("d-1", 10));
    a.try_all();
    CHECK(a.runs == 2);
    CHECK(a.one("SELECT size FROM filed WHERE id = 'd-2'") == std::to_string(60 * mib));
    CHECK(a.one("SELECT whole > size FROM filed WHERE id = 'd-2'") == "t");
    CHECK(a.one("SELECT step || ' ' || status FROM skald.idempotency WHERE key = 'd-2'") == "document completed");
}

TEST_CASE("a large message is parked with a reference, and a replay runs it with its whole body")
{
    bool is_jammed = true;
    archive a{[&](skald::message_context&, document const&) {
        if (is_jammed) throw std::runtime_error{"jammed"};
    }};
    a.send_document(written("d-1", mib + 7));
    a.try_all();
    CHECK(a.one("SELECT reason || ' ' || octet_length(body) FROM skald.parked") == "attempts_exhausted 0");
    is_jammed = false;
    CHECK(a.one("SELECT coalesce(skald.replay_parked(id), 'replayed') FROM skald.parked") == "replayed");
    a.try_all();
    CHECK(a.one("SELECT size FROM filed") == std::to_string(mib + 7));
    CHECK(a.one("SELECT count(*) FROM skald.parked") == "0");
}

TEST_CASE("a message whose body is not there is parked without a key, and runs when the body is there")
{
    archive a{file_it};
    auto const body = written("d-1", 100);
    auto const hash = a.one("SELECT encode(sha256(convert_to('" + body + "', 'UTF8')), 'hex')");
    a.send_document("", {{"skald-body", "sha256:" + hash + ";size=" + std::to_string(body.size())}});
    a.try_all();
    CHECK(a.runs == 0);
    CHECK(a.one("SELECT reason || ' ' || key || handler FROM skald.parked") == "body_missing document");
    CHECK(a.one("SELECT strpos(error, '" + hash + "') > 0 FROM skald.parked") == "t");
    a.one("SELECT skald.keep_body('\\x" + hash + "', " + std::to_string(body.size()) + ")");
    a.one("INSERT INTO skald.body_part VALUES ('\\x" + hash + "', 0, convert_to('" + body + "', 'UTF8')) RETURNING 1");
    CHECK(a.one("SELECT coalesce(skald.replay_parked(id), 'replayed') FROM skald.parked") == "replayed");
    a.try_all();
    CHECK(a.one("SELECT id FROM filed") == "d-1");
}

TEST_CASE("a body that is no document is parked as what it is, though it was kept elsewhere")
{
    archive a{file_it};
    std::string const body = R"({"no":"id"})";
    auto const hash = a.one("SELECT encode(sha256(convert_to('" + body + "', 'UTF8')), 'hex')");
    a.one("SELECT skald.keep_body('\\x" + hash + "', 11)");
    a.one("INSERT INTO skald.body_part VALUES ('\\x" + hash + "', 0, convert_to('" + body + "', 'UTF8')) RETURNING 1");
    a.send_document("", {{"skald-body", "sha256:" + hash + ";size=11"}});
    a.send_document("", {{"skald-body", "sha256:" + hash + ";size=x"}});
    a.try_all();
    CHECK(a.ask("archive", "SELECT reason FROM skald.parked ORDER BY 1") == rows{"malformed", "no_key"});
}

TEST_CASE("what nobody else could read is not sent, and the error says what is missing")
{
    archive a{[](skald::message_context& ctx, document const& d) {
        if (d.id == "reply") ctx.reply(std::string(2 * mib, 'r'));
        else ctx.publish("elsewhere", "grown", std::string(2 * mib, 'r'));
    }};
    a.send_document(written("reply", 1));
    a.send_document(written("publish", 1));
    a.try_all();
    CHECK(a.ask("archive", "SELECT reason, error LIKE '%SKALD_BODY_STORE%' FROM skald.parked") ==
          rows{"attempts_exhausted | t", "attempts_exhausted | t"});
    CHECK(a.one("SELECT count(*) FROM filed") == "0");
}
