// `skald-bench` whole, with few sagas: framework and baseline leave the same rows, and the report adds
// up. No time is looked at.
#include "bench_databases.hpp"
#include "fleet.hpp"
#include "load.hpp"
#include "support/required.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <numeric>
#include <string>

#include <sys/wait.h>
#include <unistd.h>

namespace {

using nlohmann::json;
using skald::test::required;
namespace fs = std::filesystem;

struct ended
{
    int code{};
    std::string said;
};

ended run(std::string const& words)
{
    auto const command = words + " 2>&1";
    auto* const pipe = ::popen(command.c_str(), "r");
    REQUIRE(pipe != nullptr);
    std::string said;
    std::array<char, 4'096> chunk;
    while (auto const size = std::fread(chunk.data(), 1, chunk.size(), pipe)) said.append(chunk.data(), size);
    return {WEXITSTATUS(::pclose(pipe)), said};
}

ended run_bench(std::string const& words)
{
    return run(std::string{SKALD_BENCH} + ' ' + words);
}

std::string read(fs::path const& file)
{
    std::ifstream in{file, std::ios::binary};
    return {std::istreambuf_iterator<char>{in}, {}};
}

class folder
{
public:
    folder()
    {
        auto pattern = (fs::temp_directory_path() / "skald-bench-test.XXXXXX").string();
        REQUIRE(::mkdtemp(pattern.data()) != nullptr);
        path = pattern;
    }
    ~folder() { fs::remove_all(path); }
    folder(folder const&) = delete;
    folder& operator=(folder const&) = delete;
    fs::path path;
};

constexpr int sagas = 60;

json scenario(json const& report, std::string const& name)
{
    for (auto const& one : report.at("scenarios"))
        if (one.at("name") == name) return one;
    FAIL("the report has no scenario " << name);
    return {};
}

int inserted(json const& phase, char const* table)
{
    return phase.at("server").at("rows").at(table).at("inserted");
}

// What one saga leaves: the request's record and three steps', an order, a charge and a
// shipment, and two steps' progress.
void check_rows(json const& phase)
{
    CHECK(phase.at("sagas") == sagas);
    CHECK(phase.at("ended_in_window") == sagas);
    CHECK(inserted(phase, "skald.idempotency") == 4 * sagas);
    CHECK(inserted(phase, "skald.saga") == sagas);
    CHECK(inserted(phase, "skald.progress") == 2 * sagas);
    for (auto const* table : {"public.customer_order", "public.charge", "public.shipment"})
        CHECK(inserted(phase, table) == sagas);
    // Three messages to steps; progress is reported of as many steps at once as were processed together.
    auto const& outbox = phase.at("server").at("rows").at("skald.outbox");
    CHECK(outbox.at("inserted") > 3 * sagas);
    CHECK(outbox.at("inserted") <= 5 * sagas);
    CHECK(outbox.at("deleted") == outbox.at("inserted"));
}

void check_sums(json const& phase)
{
    double sum = 0;
    for (auto const& part : phase.at("by_tenth_of_window"))
        sum += part.get<double>() * phase.at("window_seconds").get<double>() / 10;
    CHECK(sum == doctest::Approx(phase.at("ended_in_window").get<double>()));
    CHECK(phase.at("sagas_per_second").get<double>() ==
          doctest::Approx(phase.at("ended_in_window").get<double>() / phase.at("window_seconds").get<double>()));
    CHECK(phase.at("per_step").at("wal_bytes").get<double>() ==
          doctest::Approx(phase.at("server").at("wal_bytes").get<double>() / (3.0 * phase.at("sagas").get<double>())));
    CHECK(phase.at("server").at("wal_flushes") > 0);
    CHECK(phase.at("peak_rss_mib").size() == 4);  // three services and the broker
    for (auto const& peak : phase.at("peak_rss_mib")) CHECK(peak > 1);
}

}  // namespace

TEST_CASE("transports are measured side by side, with the same number of sagas under way")
{
    folder const made;
    auto const json_file = made.path / "figures.json";
    auto const bench = run_bench("--scenario transports --transport rabbitmq,postgres --under-way 3 --seconds 1 "
                                 "--warm-up 1 --rounds 1 --scenario backlog --backlog 700 --scenario messages "
                                 "--messages 300 --json " +
                                 json_file.string());
    INFO(bench.said);
    REQUIRE(bench.code == 0);
    auto const phases = scenario(json::parse(read(json_file)), "transports").at("phases");
    REQUIRE(phases.size() == 2);
    CHECK(phases[0].at("who") == "rabbitmq");
    CHECK(phases[1].at("who") == "postgres");
    for (auto const& phase : phases) {
        CHECK(phase.at("under_way") == 3);
        CHECK(phase.at("sagas") > 0);
        CHECK(phase.at("wal_bytes_a_saga") > 0);
    }
    auto const backlog = scenario(json::parse(read(json_file)), "backlog").at("phases");
    REQUIRE(backlog.size() == 2);
    for (auto const& phase : backlog) CHECK(phase.at("seconds") > 0);
    auto const messages = scenario(json::parse(read(json_file)), "messages").at("phases");
    REQUIRE(messages.size() == 4);  // over each by a step, and by a handler
    for (auto const& phase : messages) CHECK(phase.at("per_second") > 0);
}

TEST_CASE("framework and baseline leave the same behind, and the report adds up")
{
    folder const made;
    auto const json_file = made.path / "figures.json", plots = made.path / "plots";
    auto const bench = run_bench(
        "--baseline --rounds 1 --sagas " + std::to_string(sagas) +
        " --scenario throughput --scenario latency --rates 40 --scenario tables --rows 500 --keys random"
        " --scenario backlog --backlog 700 --scenario entry --connections 3 --scenario messages --messages 300"
        " --scenario guards --callers 3 --duplicates 50"
        " --json " +
        json_file.string() + " --svg " + plots.string());
    INFO(bench.said);
    REQUIRE(bench.code == 0);
    auto const report = json::parse(read(json_file));

    auto const throughput = scenario(report, "throughput");
    REQUIRE(throughput.at("phases").size() == 2);
    CHECK(throughput.at("phases")[0].at("who") == "framework");
    CHECK(throughput.at("phases")[1].at("who") == "baseline");
    for (auto const& phase : throughput.at("phases")) {
        check_rows(phase);
        check_sums(phase);
    }
    auto const ratio = throughput.at("ratios").at(0);
    CHECK(ratio.at("ratio").get<double>() ==
          doctest::Approx(ratio.at("framework").get<double>() / ratio.at("baseline").get<double>()));
    CHECK(ratio.at("baseline") == throughput.at("phases")[1].at("sagas_per_second"));

    auto const latency = scenario(report, "latency").at("phases");
    REQUIRE(latency.size() == 2);  // one alone, and at 40 a second
    for (auto const& phase : latency) CHECK(phase.at("completed_ms").at("count") == sagas);
    auto const backlog = scenario(report, "backlog").at("phases");
    REQUIRE(backlog.size() == 2);
    for (auto const& phase : backlog) CHECK(phase.at("messages") == 700);
    auto const entry = scenario(report, "entry").at("phases");
    REQUIRE(entry.size() == 3);  // keys of their own, replays, and the baseline
    for (auto const& phase : entry) CHECK(phase.at("requests") == sagas);
    CHECK(entry[1].at("replayed") == true);
    CHECK(scenario(report, "tables").at("phases").size() == 2);
    auto const messages = scenario(report, "messages").at("phases");
    REQUIRE(messages.size() == 2);  // by a step, and by a handler
    for (auto const& phase : messages) CHECK(phase.at("messages") == 300);
    auto const guards = scenario(report, "guards").at("phases");
    REQUIRE(guards.size() == 5);  // a way each
    for (auto const& phase : guards) {
        CHECK(phase.at("answers") == sagas);  // what hears 409 is none, and is sent again
        CHECK(phase.at("first_ms").at("count").get<int>() + phase.at("replay_ms").at("count").get<int>() == sagas);
        CHECK(phase.at("effects_twice") == 0);
        CHECK(phase.at("wrong_responses") == 0);
    }

    CHECK(report.at("settings").at("postgres").at("synchronous_commit") == "on");
    for (auto const* plot : {"throughput.svg", "latency.svg"}) CHECK(read(plots / plot).ends_with("</svg>\n"));
    CHECK(read(plots / "throughput.svg").find(">framework, random<") != std::string::npos);
}

namespace {

void check_shop_phase(json const& phase)
{
    INFO(phase.dump(2));
    CHECK(phase.at("processes") == 2);
    CHECK(phase.at("ended") == sagas);
    CHECK(phase.at("declined") == sagas / 5);
    CHECK(phase.at("broke") == sagas / 10);
    CHECK(phase.at("customers") == (phase.at("shared") ? 3 : sagas));
    CHECK(phase.at("skus") == (phase.at("shared") ? 2 : sagas));
    CHECK(phase.at("sagas_per_second").get<double>() == doctest::Approx(sagas / phase.at("seconds").get<double>()));
    CHECK(phase.at("peak_rss_mib").size() == 3 * phase.at("processes").get<std::size_t>() + 1);  // and the broker
    for (auto const* counted : {"commits", "rollbacks", "deadlocks", "tried_again"}) {
        int sum = 0;
        for (auto const& one : phase.at("databases")) sum += one.at(counted).get<int>();
        CHECK(phase.at("all").at(counted) == sum);
    }
    if (phase.at("who") == "baseline")  // which locks in one order
        for (auto const* service : {"payments", "shipping"})
            CHECK(phase.at("databases").at(service).at("deadlocks") == 0);
}

}  // namespace

// It judges the databases itself: what is wrong there is an error.
TEST_CASE("in the shop every order ends as it should, by the framework and by hand, on rows that are shared or not")
{
    folder const made;
    auto const json_file = made.path / "figures.json";
    auto const bench =
        run_bench("--baseline --rounds 1 --scenario shop --sagas " + std::to_string(sagas) +
                  " --customers 3 --skus 2 --declined 20 --broke 10 --processes 2 --json " + json_file.string());
    INFO(bench.said);
    REQUIRE(bench.code == 0);
    auto const shop = scenario(json::parse(read(json_file)), "shop");
    REQUIRE(shop.at("phases").size() == 4);  // shared and not, framework and baseline
    for (auto const& phase : shop.at("phases")) check_shop_phase(phase);
    REQUIRE(shop.at("ratios").size() == 4);  // of the baseline, and of what is not shared
    CHECK(shop.at("ratios")[0].at("baseline") == shop.at("phases")[1].at("sagas_per_second"));
    CHECK(shop.at("ratios")[2].at("unshared") == shop.at("phases")[2].at("sagas_per_second"));
}

TEST_CASE("a shop that does not come to its end within the limit tells how far it came")
{
    folder const made;
    auto const json_file = made.path / "figures.json";
    auto const bench =
        run_bench("--rounds 1 --scenario shop --sagas 5000 --shared none --limit 1 --json " + json_file.string());
    INFO(bench.said);
    REQUIRE(bench.code == 0);
    auto const phase = scenario(json::parse(read(json_file)), "shop").at("phases")[0];
    CHECK(phase.at("sagas") == 5'000);
    CHECK(phase.at("ended") < 5'000);
    CHECK(phase.at("sagas_per_second").get<double>() ==
          doctest::Approx(phase.at("ended").get<double>() / phase.at("seconds").get<double>()));
}

namespace {

using namespace skald_bench;

/// The driver's databases, with their tables empty.
struct empty_databases
{
    explicit empty_databases(bool shop = false)
    {
        ::unsetenv("SKALD_TEST_STACK");
        chosen.programs = SKALD_PROGRAMS;
        chosen.shop_programs = chosen.programs.parent_path() / "examples" / "order_saga";
        chosen.logs = logs.path.string();
        chosen.broker_url = required("AMQP_URL");
        make_tables(chosen, skald::rig::signals{}, databases, shop);
    }
    folder logs;
    options chosen;
    bench_databases databases{required("DATABASE_URL"), false};
};

}  // namespace

// In a scope of their own the old ones would be in another part of the index, and a big table as fast as an empty one.
TEST_CASE("the old rows of a big table are in the scope of the new ones")
{
    empty_databases made;
    made.databases.add_old_records(50, false);
    saga_starter{made.databases, false, false}.start(1);
    auto const found =
        ask(made.databases.at(orders), "SELECT count(*), count(DISTINCT scope) FROM skald.idempotency")[0];
    CHECK(found[0].as<int>() == 51);
    CHECK(found[1].as<int>() == 1);
}

namespace {

/// What a saga that is started in one way leaves. Takes it away again.
std::string rows_of_a_start(pqxx::connection& home, saga_kind const& kind, bool by_function)
{
    start_sagas(home, kind, json::array({json{{"id", "order-1"}, {"sku", "tea"}}}), by_function);
    auto const row = ask(home, R"(
        SELECT (to_jsonb(s) - '{created_at,updated_at}'::text[])::text,
               (to_jsonb(i) - '{created_at,updated_at}'::text[])::text,
               (to_jsonb(o) - '{id,due_at,created_at}'::text[])::text
          FROM skald.saga s JOIN skald.idempotency i USING (scope, key)
          JOIN skald.outbox o ON o.aggregateid = s.key)");
    REQUIRE(row.size() == 1);
    std::string text;
    for (auto const field : row[0]) text += std::string{field.c_str()} + '\n';
    for (auto const* table : {"saga", "idempotency", "outbox"}) ask(home, std::string{"DELETE FROM skald."} + table);
    return text;
}

}  // namespace

// The load is made of rows, since one skald.start() a saga would be the bottleneck. They must be those that it leaves.
TEST_CASE("the rows by which sagas are started are those of skald.start(), in the shop too")
{
    for (bool const shop : {false, true}) {
        empty_databases made{shop};
        auto& home = made.databases.at(orders);
        auto const& kind = shop ? shop_order : bench_order;
        auto const by_rows = rows_of_a_start(home, kind, false);
        CHECK(by_rows == rows_of_a_start(home, kind, true));
        CHECK(by_rows.find(kind.itinerary) != std::string::npos);
    }
}

// They judge themselves: a saga that goes on twice, or not at all, is an error.
TEST_CASE("sagas that wait go on once after their signal or their time, over a kill, and a long call has one effect")
{
    folder const made;
    auto const json_file = made.path / "figures.json";
    auto const bench = run_bench("--scenario waits --waiting 50 --timers 200 --over 4 --lead 8"
                                 " --scenario calls --job 6 --stopped 6 --lease 2 --json " +
                                 json_file.string());
    INFO(bench.said);
    REQUIRE(bench.code == 0);
    auto const report = json::parse(read(json_file));
    std::map<std::string, json> waits;
    auto const measured = scenario(report, "waits");
    for (auto const& phase : measured.at("phases")) waits[phase.at("label")] = phase;
    CHECK(waits.at("50 sagas wait").at("ready") == 0);
    CHECK(waits.at("killed while they wait").at("messages_back") == 0);
    for (auto const* how : {"over HTTP, 200 a second", "by SQL, 200 a second"})
        CHECK(waits.at(how).at("to_next_step_ms").at("count") == 10);
    CHECK(waits.at("by SQL, as fast as it goes").at("to_next_step_ms").at("count") == 30);
    CHECK(waits.at("over before it was killed").at("late_ms").at("count").get<int>() +
              waits.at("over after that").at("late_ms").at("count").get<int>() ==
          200);
    auto const calls = scenario(report, "calls").at("phases");
    REQUIRE(calls.size() == 2);
    CHECK(calls[0].at("take_over_ms").size() == 2);
    CHECK(calls[0].at("repeated_units") <= 2);
}

TEST_CASE("what is wrong with the command line, and a missing server, are said with what to do")
{
    auto const unknown = run_bench("--scenario nonsense");
    CHECK(unknown.code == 2);
    CHECK(unknown.said.find("nonsense") != std::string::npos);
    CHECK(run_bench("--sagas none").code == 2);
    CHECK(run_bench("--baseline --only-baseline").code == 2);
    CHECK(run_bench("--scenario shop --declined 60 --broke 50").code == 2);
    CHECK(run_bench("--scenario shop --shared some").code == 2);
    CHECK(run_bench("--help").code == 0);

    auto const homeless = run(std::string{"env -u AMQP_URL "} + SKALD_BENCH + " --scenario throughput");
    CHECK(homeless.code == 2);
    CHECK(homeless.said.find("AMQP_URL is not set") != std::string::npos);
    CHECK(homeless.said.find("bench/bench.sh") != std::string::npos);

    auto const nobody = run(std::string{"env AMQP_URL=amqp://127.0.0.1:1 "} + SKALD_BENCH + " --scenario throughput");
    CHECK(nobody.code == 1);
    CHECK(nobody.said.find("RabbitMQ can't be reached at 127.0.0.1:1") != std::string::npos);
}
