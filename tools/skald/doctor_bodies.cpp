#include "bodies.hpp"
#include "doctor.hpp"
#include "doctor_database.hpp"

#include "core/body_reference.hpp"
#include "core/instant.hpp"
#include "database.hpp"
#include "postgres/body_rows.hpp"
#include "postgres/conninfo.hpp"
#include "postgres/literal.hpp"

#include <fmt/format.h>
#include <pqxx/pqxx>

#include <chrono>
#include <exception>
#include <functional>

namespace skald::tools {
namespace {

// Of those that rows refer to, so many bytes are read and compared with their SHA-256; the others are only looked for.
constexpr std::uint64_t read_bytes_max = core::kept_body_bytes_max;

/// Where the service reads its bodies: a store apart, and then its database, where skald::start() keeps them.
class body_place
{
public:
    body_place(postgres::connection& c, ports::body_store* apart) : c_{c}, apart_{apart} {}

    std::string name() const { return apart_ != nullptr ? apart_->name() : "this database"; }

    bool has(core::body_reference const& what)
    {
        if (apart_ != nullptr && apart_->hold(what)) return true;
        q::doctor_body_is_here const asked{.fingerprint = postgres::bytes{what.fingerprint}};
        return c_.run(postgres::filled_in(asked))[0]["is_here"].as<bool>();
    }

    void read(core::body_reference const& what)
    {
        if (!has(what)) throw ports::missing_body(what, name());
        if (apart_ != nullptr && apart_->hold(what)) apart_->read(what);
        else postgres::read_body(c_, what, "this database");
    }

private:
    postgres::connection& c_;
    ports::body_store* apart_;
};

// It can't be deleted again: nobody refers to it, so the purge does. Another one only after an hour.
void try_out(ports::body_store& store, postgres::ownership const& owner)
{
    auto const hour = std::chrono::floor<std::chrono::hours>(std::chrono::system_clock::now()).time_since_epoch();
    auto const body = fmt::format("`skald doctor` for {} {} in the hour {}", owner.service, owner.database,
                                  std::chrono::duration_cast<std::chrono::hours>(hour).count());
    auto const what = core::reference_to(body, store.name());
    store.keep(what, body);
    store.read(what);
}

void examine_references(postgres::connection& c, body_place place, findings& found)
{
    std::size_t there = 0, whole = 0, ill = 0;
    std::uint64_t bytes_left = read_bytes_max;
    std::string first;
    for (auto const& row : c.run(std::string{q::doctor_bodies})) {
        auto const what = core::parse_reference(row["reference"].c_str());
        if (!what) continue;  // of a message that is parked because of that
        try {
            bool const is_read = what->size <= bytes_left;
            if (is_read) {
                place.read(*what);
                bytes_left -= what->size;
                ++whole;
            }
            else if (!place.has(*what)) throw ports::missing_body(*what, place.name());
            ++there;
        }
        catch (ports::body_fault const& error) {
            if (++ill == 1)
                first = fmt::format("a row of skald.{} refers to it: {}", row["kind"].c_str(), error.what());
        }
    }
    add(found, "bodies", ill == 0, health::problem,
        ill == 0 ? fmt::format("{} large bodies that rows refer to are there, of which {} were read and are whole",
                               there, whole)
                 : fmt::format("{} of {} large bodies that rows refer to are missing or damaged; {}", ill, ill + there,
                               first),
        "bring them back from a backup: what needs them is parked until then, and can't be replayed; see "
        "docs/bodies.md");
}

// Asked on another connection: a lock may have been in the way of connecting already, which prepares statements.
finding bodies_not_examined(config const& settings, pqxx::failure const& error)
try {
    pqxx::connection c{postgres::with_defaults(settings.database_url, "skald/doctor", "any")};
    return not_examined(c, "bodies", error);
}
catch (pqxx::failure const&) {
    return not_examined("bodies", error);
}

}  // namespace

void examine_bodies(config const& settings, postgres::ownership const& owner, findings& found)
try {
    if (owner.service.empty()) return;
    auto const store = body_store_of(settings, owner);
    if (store != nullptr) try_out(*store, owner);
    auto c = connect(settings, "doctor");
    body_place const place{c, store.get()};
    examine_references(c, place, found);
    found.push_back(
        {"body store", health::ok,
         store == nullptr ? "large bodies are kept in this database" : place.name() + " takes and gives bodies", ""});
}
catch (pqxx::failure const& error) {
    found.push_back(bodies_not_examined(settings, error));
}
catch (std::exception const& error) {
    found.push_back({"body store", health::problem,
                     fmt::format("{} can't be used: {}", settings.body_store, error.what()),
                     "what has a large body waits until it can; run doctor as the service's user, with its "
                     "SKALD_BODY_STORE and credentials"});
}

}  // namespace skald::tools
