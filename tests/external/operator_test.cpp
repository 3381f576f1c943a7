// What an operator sees of started steps, and says about them.
#include "admin/commands.hpp"
#include "admin/figure_reader.hpp"
#include "admin/saga_list.hpp"
#include "admin/saga_view.hpp"
#include "admin/started_steps.hpp"
#include "external/bank.hpp"
#include "rig/process.hpp"

#include <skald/testing/wait_until.hpp>

#include <doctest/doctest.h>

#include <chrono>
#include <cstdlib>
#include <stdexcept>
#include <string>

using namespace std::chrono_literals;
using namespace skald::test;
using nlohmann::json;

namespace {

struct told
{
    int code{};
    std::string text;
    bool says(std::string const& part) const { return text.find(part) != std::string::npos; }
};

class office final : public bank_services
{
public:
    /// The bank was called and can't tell what it has done, for long enough that the saga is unknown.
    void begin_unknown()
    {
        at("till").options_of_steps.call.unknown_after = 0ms;
        host();
        gateway.can_tell = false;
        gateway.after_charge = [](auto const&) { throw std::runtime_error{"timed out"}; };
        start(buy, purchase{"p", 100}, "k");
        for (int n = 0; n < 3; ++n) {
            run_all();
            at("till").make_started_due();
        }
        run();
        REQUIRE(saga_status("k") == "unknown");
    }

    skald::postgres::connection to(std::string const& name)
    {
        return skald::postgres::connection{{.url = at(name).db.url()}};
    }

    json started(skald::admin::started_filter const& filter = {})
    {
        auto c = to("till");
        return skald::admin::list_started(c, filter)["started"];
    }

    std::string resolve(std::string const& in, skald::admin::resolution const& what)
    {
        auto c = to(in);
        return skald::admin::resolve(c, what).value_or("");
    }

    /// `skald`, with the database of that service.
    skald::rig::process_settings with(std::string const& of, std::vector<std::string> const& words)
    {
        return {.program = SKALD_TOOL,
                .arguments = words,
                .variables = {{"DATABASE_URL", at(of).db.url()}, {"PATH", std::getenv("PATH")}}};
    }
    told tool(std::string const& of, std::vector<std::string> const& words)
    {
        skald::rig::process command{with(of, words)};
        auto const end = command.run();
        return {end.code.value_or(-1), command.log()};
    }

    std::string signal(std::string const& step)
    {
        auto c = to("shop");
        return skald::admin::signal(c, {"", "k"}, step, json::parse(R"({"by": "eve"})"));
    }
};

}  // namespace

TEST_CASE("the list says what each started step waits for")
{
    office all;
    all.host();
    all.start(buy, purchase{"p", 100}, "k");
    all.run();
    auto const first = all.started().at(0);
    CHECK(first["key"] == "k");
    CHECK(first["step"] == "capture");
    CHECK(first["waits_for"] == "its call to be made");
    CHECK(first["due_in_seconds"] <= 0);

    auto const taken = all.at("till").started().take("till/7", skald::ports::started_kind::call, "", 1);
    CHECK(all.started().at(0)["waits_for"] == "its call, made once, to end");
    CHECK(all.started().at(0)["owner"] == "till/7");
    CHECK(all.started().at(0)["due_in_seconds"] > 0);

    all.at("shop").db.run("SELECT skald.request_control('pause', '', 'k')");
    all.run();
    CHECK(all.started().at(0)["waits_for"] == "its call, made once, to end; its saga is paused");
    all.at("shop").db.run("SELECT skald.request_control('resume', '', 'k')");
    all.run();
    CHECK(all.started().at(0)["waits_for"] == "its call, made once, to end");

    CHECK(all.started({.key = "other"}).empty());
    CHECK(all.started({.unknown = true}).empty());
}

TEST_CASE("that a call is unknown is an error in the log once, however often it is asked in vain after that")
{
    office all;
    all.begin_unknown();
    for (int n = 0; n < 2; ++n) {
        all.at("till").make_started_due();
        all.run_all();
    }
    auto const lines = all.at("till").log().lines("step.unknown");
    REQUIRE(lines.size() >= 3);
    CHECK(lines[0].starts_with("now error "));
    for (std::size_t n = 1; n < lines.size(); ++n) CHECK(lines[n].starts_with("now debug "));
}

TEST_CASE("an unknown call is listed, counted and shown, until somebody says what it has done")
{
    office all;
    all.begin_unknown();
    auto const listed = all.started({.unknown = true});
    REQUIRE(listed.size() == 1);
    CHECK(listed.at(0)["waits_for"].get<std::string>().find("somebody who knows what its call has done") == 0);
    CHECK(listed.at(0)["error"].get<std::string>().find("its list is not up to date") != std::string::npos);

    auto home = all.to("shop"), till = all.to("till");
    CHECK(skald::admin::list_sagas(home, {.status = "unknown"})["sagas"].size() == 1);
    auto const shown = skald::admin::to_operator_json(*skald::admin::find_saga(home, {"", "k"}));
    CHECK(shown["explanation"].get<std::string>().find("unknown: nobody knows what the call of capture at till") == 0);

    skald::metrics::database_figures figures;
    skald::admin::figure_reader reader{figures};
    reader.read(till, "-infinity");
    auto const before = figures.now().latest.value();
    REQUIRE(before.unknown_calls.size() == 1);
    CHECK(before.unknown_calls.at(0).value == 1);
    CHECK(before.started.at(0).first == "call");
    CHECK(before.started.at(0).value == 1);

    CHECK(all.resolve("till", {{"", "k"}, "capture", json{{"number", "r-1"}}, "the bank said so", "eve"}) == "");
    all.run_all();
    CHECK(all.saga_status("k") == "completed");
    CHECK(all.started().empty());
    CHECK(all.at("till").db.one("SELECT actor LIKE 'eve as %' FROM skald.audit WHERE verb = 'saga resolve'") == "t");
    reader.read(till, "-infinity");
    CHECK(figures.now().latest.value().unknown_calls.empty());
}

TEST_CASE("an answer that comes while the call runs counts, whatever the call then says")
{
    office all;
    all.host();
    all.start(buy, purchase{"p", 100}, "k");
    all.run();
    auto const running = all.at("till").started().take("till/7", skald::ports::started_kind::call, "", 1).at(0);
    CHECK(all.resolve("till", {{"", "k"}, "capture", {}, "it said no", "eve"}).find("may yet happen") !=
          std::string::npos);
    CHECK(all.resolve("till", {{"", "k"}, "capture", json{{"number", "r-7"}}, "the bank said so", "eve"}) == "");
    CHECK(all.at("till").started().release({running.id, {}, false}) == skald::ports::release_result::not_ours);
    all.run_all();
    CHECK(all.saga_status("k") == "completed");
    CHECK(all.effects("till").find("settle r-7") != std::string::npos);
    CHECK(all.gateway.charges.empty());
}

TEST_CASE("what can't be resolved here is refused, with the service that has it")
{
    office all;
    all.begin_unknown();
    skald::admin::resolution what{{"", "k"}, "capture", {}, "it said no", ""};
    CHECK(all.resolve("shop", what) == "capture of saga k belongs to till: say it in the database of that service");
    what.step = "capture.compensate";
    CHECK(all.resolve("shop", what) ==
          "capture.compensate of saga k belongs to till: say it in the database of that service");
    what.step = "nope";
    CHECK(all.resolve("shop", what) == "nope of saga k does not exist: its saga has no step of that name");
    CHECK(all.resolve("till", what) ==
          "nope of saga k is not under way here: it has not begun, or another service has it");
}

TEST_CASE("a result that does not fit its step can be replaced, and one that is being recorded can't")
{
    office all;
    all.begin_unknown();
    auto const say = [&](json const& result) {
        return all.resolve("till", {{"", "k"}, "capture", result, "a guess", ""});
    };
    CHECK(say(json{{"number", 7}}) == "");
    CHECK(say(json{{"number", "r-1"}}).find("has an answer already") != std::string::npos);
    all.run_all();
    CHECK(all.record("capture") == "started|1");
    CHECK(all.started().at(0)["waits_for"] == "its end to be recorded, which failed once");
    auto const error = all.started().at(0)["error"].get<std::string>();
    CHECK_MESSAGE(error.find("the result does not fit the step's result type: ") != std::string::npos, error);
    auto till = all.to("till");
    skald::metrics::database_figures figures;
    skald::admin::figure_reader reader{figures};
    // On a slow machine one more try may come due while the others run.
    while (all.started().at(0)["tries"].get<int>() < 3) {
        reader.read(till, "-infinity");
        CHECK(figures.now().latest.value().unsettled.empty());
        all.at("till").make_started_due();
        all.run_all();
    }
    reader.read(till, "-infinity");
    auto const unsettled = figures.now().latest.value().unsettled;
    REQUIRE(unsettled.size() == 1);
    CHECK(unsettled.at(0).first + ' ' + unsettled.at(0).second == "capture forward");
    CHECK(unsettled.at(0).value == 1);
    CHECK(all.tool("till", {"doctor"}).says("1 started steps have an end that could not be recorded"));
    CHECK(say(json{{"number", "r-1"}}) == "");
    all.run_all();
    CHECK(all.saga_status("k") == "completed");
    CHECK(all.effects("till") == "prepare\nsettle r-1");
}

TEST_CASE("the command line shows an unknown call, and answers for it where its step is")
{
    office all;
    all.begin_unknown();
    CHECK(all.tool("shop", {"saga", "list", "--status", "unknown"}).says("buy"));
    auto const listed = all.tool("till", {"started", "list", "--unknown", "--key", "k"});
    CHECK(listed.code == 0);
    CHECK(listed.says("somebody who knows what its call has done"));
    CHECK(all.tool("till", {"started", "list", "--key", "other"}).says("no started step here matches"));
    auto const doctor = all.tool("till", {"doctor"});
    CHECK_MESSAGE(doctor.says("of 1 calls nobody knows what they have done"), doctor.text);
    CHECK(all.tool("shop", {"doctor"}).says("1 sagas of which nobody knows what a call has done"));

    std::vector<std::string> const happened{"saga", "resolve", "k", "capture", "happened", "--reason", "by phone"};
    auto const with = [&](std::vector<std::string> const& more) {
        auto words = happened;
        words.insert(words.end(), more.begin(), more.end());
        return words;
    };
    CHECK(all.tool("till", happened).says("say with --result what the other side answered"));
    CHECK(all.tool("till", happened).code == 2);
    CHECK(all.tool("till", with({"--result", "{"})).code == 2);
    CHECK(all.tool("till", {"saga", "resolve", "k", "capture", "did-not-happen"}).code == 2);
    auto const elsewhere = all.tool("shop", with({"--result", "{}"}));
    CHECK(elsewhere.code == 1);
    CHECK(elsewhere.says("capture of saga k belongs to till"));
    CHECK(all.record("capture") == "unknown|1");

    auto const done = all.tool("till", with({"--result", R"({"number": "r-1"})", "--by", "eve", "--wait", "0"}));
    CHECK_MESSAGE(done.code == 0, done.text);
    all.run_all();
    CHECK(all.saga_status("k") == "completed");
    auto const late = all.tool("shop", {"saga", "signal", "k", "capture", "--body", "{}"});
    CHECK(late.code == 1);
    CHECK(late.says("has ended"));
}

TEST_CASE("a started step that is due and that nobody takes is overdue, and one that waits for its time is not")
{
    office all;
    all.host();
    all.start(buy, purchase{"p", 100}, "k");
    all.run();
    auto till = all.to("till");
    skald::metrics::database_figures figures;
    skald::admin::figure_reader reader{figures};
    auto const overdue = [&] {
        reader.read(till, "-infinity");
        return figures.now().latest.value().started_overdue.at(0).value;
    };
    all.at("till").db.run("UPDATE skald.started SET due_at = clock_timestamp() + '1 h'");
    CHECK(overdue() == 0);
    all.at("till").db.run("UPDATE skald.started SET due_at = clock_timestamp() - interval '1 h'");
    CHECK(overdue() >= 3'600);
}

TEST_CASE("an operator's signal is for a step that waits, at the saga's home")
{
    office all;
    all.host();
    CHECK(all.signal("capture") == "no saga");
    all.start(buy, purchase{"p", 100}, "k");
    all.run_all();
    CHECK(all.signal("nope") == "no step");
    CHECK(all.signal("capture") == "late");
}

TEST_CASE("a saga with a call under way is closed only by somebody who says that its end is to be lost")
{
    office all;
    all.begin_unknown();
    std::vector<std::string> words{"saga", "close", "k", "--as", "compensated", "--reason", "by hand", "--yes"};
    all.tool("shop", {"saga", "pause", "k"});
    all.run();
    auto const refused = all.tool("shop", words);
    CHECK(refused.code == 1);
    CHECK_MESSAGE(refused.says("of saga k is under way: capture at till (unknown since "), refused.text);
    CHECK(refused.says("is recorded nowhere"));
    CHECK(all.saga_status("k") == "unknown");
    words.emplace_back("--even-with-calls");
    auto const closed = all.tool("shop", words);
    CHECK_MESSAGE(closed.code == 0, closed.text);
    CHECK(closed.says("nothing records how it ends: capture at till"));
    CHECK(all.saga_status("k") == "compensated");
    CHECK(all.at("shop").db.one(
              "SELECT detail->'lost'->>0 LIKE 'capture at till%' FROM skald.audit WHERE verb = 'saga close'") == "t");
}

TEST_CASE("a reason that says nothing, or that is no text, is refused by name")
{
    office all;
    all.begin_unknown();
    for (auto const& words : {std::vector<std::string>{"saga", "resolve", "k", "capture", "did-not-happen"},
                              {"saga", "pause", "k"},
                              {"saga", "close", "k", "--as", "completed", "--yes"},
                              {"parked", "drop", "1"}}) {
        auto const with = [&](std::string const& reason) {
            auto all_words = words;
            all_words.insert(all_words.end(), {"--reason", reason});
            return all.tool("till", all_words);
        };
        auto const empty = with(" ");
        CHECK(empty.code == 2);
        CHECK_MESSAGE(empty.says("--reason: is empty: say why, it is kept"), empty.text);
        auto const no_text = with("by\xff");
        CHECK(no_text.code == 2);
        CHECK_MESSAGE(no_text.says("'by\\xff' is not UTF-8"), no_text.text);
    }
}

TEST_CASE("the command line says at once that a result does not fit its step, and that one which fits is recorded")
{
    office all;
    all.begin_unknown();
    running_calls process{all.at("till")};
    auto const say = [&](std::string const& result) {
        return all.tool("till", {"saga", "resolve", "k", "capture", "happened", "--result", result, "--reason",
                                 "by phone", "--wait", "60"});
    };
    auto const wrong = say(R"({"number": 7})");
    CHECK(wrong.code == 1);
    CHECK_MESSAGE(wrong.says("the result does not fit the step's result type"), wrong.text);
    auto const right = say(R"({"number": "r-1"})");
    CHECK(right.code == 0);
    CHECK_MESSAGE(right.says("its service has recorded it"), right.text);
    CHECK(all.record("capture").starts_with("completed"));
}

TEST_CASE("an answer that was taken is no refusal where the connection breaks in the wait for what its service says")
{
    office all;
    all.begin_unknown();
    skald::rig::process command{all.with("till", {"saga", "resolve", "k", "capture", "happened", "--result", "{}",
                                                  "--reason", "by phone", "--wait", "600", "--json"})};
    command.start();
    std::string const cut = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE state = 'idle' "
                            "AND query LIKE '%list_started%' AND datname = current_database()";
    CHECK(skald::testing::wait_until([&] { return all.at("till").db.one(cut) != "0"; }));
    CHECK(command.wait().code == 0);
    CHECK_MESSAGE(command.has_logged(R"("recorded":false)"), command.log());
}

TEST_CASE("a result in C++ has the type of its step")
{
    office all;
    all.begin_unknown();
    pqxx::connection c{all.at("till").db.url()};
    pqxx::work tx{c};
    skald::resolve_call<capture>(tx, "k", "capture", receipt{"r-1", false}, {.reason = "a webhook"});
    tx.commit();
    all.run_all();
    CHECK(all.effects("till") == "prepare\nsettle r-1");
}

TEST_CASE("the command line refuses a signal for a step that never waits, and says when it can't know")
{
    office all;
    all.host();
    all.at("shop").db.run("SELECT skald.record_hosted('{reserve,ship}', '{f,f}')");
    all.start(buy, purchase{"p", 100}, "k");
    all.run();
    auto const never = all.tool("shop", {"saga", "signal", "k", "ship", "--body", "{}"});
    CHECK(never.code == 1);
    CHECK_MESSAGE(never.says("never waits for a signal"), never.text);
    auto const elsewhere = all.tool("shop", {"saga", "signal", "k", "capture", "--body", "{}"});
    CHECK(elsewhere.code == 0);
    CHECK_MESSAGE(elsewhere.says("which alone knows whether it waits"), elsewhere.text);
}
