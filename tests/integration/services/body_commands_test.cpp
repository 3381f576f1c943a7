// `skald doctor`, `skald purge` and `skald parked show` on large bodies, which are kept apart from what refers to them.
#include "support/skald_command.hpp"
#include "support/temporary_directory.hpp"

#include <chrono>
#include <filesystem>

using namespace skald::test;

namespace {

/// What an operator runs for a service that keeps its large bodies in a directory.
told run_with_bodies(fresh_database const& db, std::string const& directory, std::vector<std::string> const& words)
{
    service_process command{
        SKALD_TOOL, words, {{"DATABASE_URL", db.url()}, {"SKALD_BODY_STORE", "directory:" + directory}}};
    command.start();
    auto const end = command.wait();
    return {end.code.value_or(-1), command.log()};
}

// Of a body that nobody has put there.
std::string const nowhere = "sha256:" + std::string(64, 'a') + ";size=70000;store=directory:/x";

}  // namespace

TEST_CASE("skald doctor writes and reads the store of large bodies, and says which is missing that a row refers to")
{
    fresh_database db{"bodies"};
    temporary_directory place;
    REQUIRE(run_skald(db, {"migrate", "--service", "orders"}).code == 0);
    CHECK(level(run_skald(db, {"doctor", "--json"}, false).object(), "body store") == "ok");

    auto const well = run_with_bodies(db, place.path(), {"doctor", "--json"}).object();
    CHECK(level(well, "body store") == "ok");
    CHECK(level(well, "bodies") == "ok");
    CHECK_FALSE(std::filesystem::is_empty(place.path()));

    db.ask("SELECT skald.enqueue('x', 'x', 'x', '', headers => jsonb_build_object('skald-body', '" + nowhere + "'))");
    for (bool const is_apart : {true, false}) {
        auto const ill = is_apart ? run_with_bodies(db, place.path(), {"doctor", "--json"})
                                  : run_skald(db, {"doctor", "--json"}, false);
        CHECK(level(ill.object(), "bodies") == "problem");
        CHECK_MESSAGE(ill.text.find("1 of 1 large bodies that rows refer to are missing or damaged; a row of "
                                    "skald.outbox refers to it: the body sha256:aaaa") != std::string::npos,
                      ill.text);
    }
    CHECK(level(run_with_bodies(db, (place.path() / "not-there").string(), {"doctor", "--json"}).object(),
                "body store") == "problem");
}

TEST_CASE("skald purge removes what nobody refers to from the directory of large bodies, and nothing else")
{
    fresh_database db{"bodies"};
    temporary_directory place;
    REQUIRE(run_skald(db, {"migrate", "--service", "orders"}).code == 0);
    REQUIRE(level(run_with_bodies(db, place.path(), {"doctor", "--json"}).object(), "body store") == "ok");
    std::vector<std::filesystem::path> bodies;
    for (auto const& one : std::filesystem::recursive_directory_iterator{place.path()})
        if (one.path().filename().string().size() == 64) bodies.push_back(one.path());
    REQUIRE(bodies.size() == 1);
    auto const make_old = [&] {
        std::filesystem::last_write_time(bodies[0],
                                         std::filesystem::file_time_type::clock::now() - std::chrono::hours{24 * 40});
    };
    auto const refer = "SELECT skald.enqueue('x', 'x', 'x', '', headers => jsonb_build_object('skald-body', 'sha256:" +
                       bodies[0].filename().string() +
                       ";size=" + std::to_string(std::filesystem::file_size(bodies[0])) + "'))";
    db.ask(refer);
    make_old();
    CHECK(run_with_bodies(db, place.path(), {"purge", "--json"}).object()["bodies"] == 0);
    CHECK(std::filesystem::exists(bodies[0]));

    db.ask("DELETE FROM skald.outbox");
    make_old();
    auto const done = run_with_bodies(db, place.path(), {"purge", "--json"});
    CHECK(done.code == 0);
    CHECK(done.object()["bodies"] == 1);
    CHECK_FALSE(std::filesystem::exists(bodies[0]));

    auto const away = run_with_bodies(db, (place.path() / "not-there").string(), {"purge"});
    CHECK(away.code == 1);
    CHECK_MESSAGE(away.text.find("there is no directory") != std::string::npos, away.text);
}

TEST_CASE("a parked delivery whose body is kept apart is shown with its body's size, hash and place")
{
    fresh_database db{"bodies"};
    REQUIRE(run_skald(db, {"migrate", "--service", "orders"}).code == 0);
    db.ask("INSERT INTO skald.parked (reason, body, fingerprint, headers) VALUES ('body_missing', '', sha256(''), "
           "jsonb_build_object('skald-body', '" +
           nowhere + "'))");
    auto const id = db.ask("SELECT id FROM skald.parked").at(0).at(0);
    auto const shown = run_skald(db, {"parked", "show", id, "--json"}).object();
    CHECK(shown["kept_body"] == json{{"sha256", std::string(64, 'a')}, {"bytes", 70000}, {"store", "directory:/x"}});
    CHECK_FALSE(shown.contains("body"));
    CHECK(run_skald(db, {"parked", "show", id}).text.find("70000 bytes in directory:/x, sha256:aaaa") !=
          std::string::npos);
    CHECK(run_skald(db, {"parked", "list", "--json"}).object()["parked"][0]["body_bytes"] == 70000);
}
