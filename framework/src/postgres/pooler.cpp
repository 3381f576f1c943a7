#include "postgres/pooler.hpp"

#include "skald_session_queries.hpp"
#include "sockets/watchdog.hpp"

#include <skald/errors.hpp>

#include <pqxx/except>
#include <pqxx/nontransaction>
#include <pqxx/result>

namespace skald::postgres {
namespace {

using namespace std::chrono_literals;

constexpr auto answer_within = 5s;

// Other clients of the pooler may disturb one sample, but hardly so many.
constexpr int samples = 8;

int backend_of(pqxx::connection& c)
{
    return pqxx::nontransaction{c}.exec(std::string{session_queries::backend})[0][0].as<int>();
}

// A pooler that works by session never lets two clients share one of the server's sessions, and never changes a
// client's session unless it is taken away between two transactions. We query ours twice in a row because a pooler that
// alternates between two servers would otherwise show each of us the same one every time.
bool share_sessions(pqxx::connection& a, pqxx::connection& b)
{
    auto const ours = backend_of(a);
    for (int sample = 0; sample < samples; ++sample)
        if (backend_of(b) == ours || backend_of(a) != ours || backend_of(a) != ours) return true;
    return false;
}

}  // namespace

pooling find_pooling(pqxx::connection& c, std::string const& conninfo)
{
    // A pooler invents the process number that a client gets at startup.
    if (c.backendpid() == backend_of(c)) return pooling::none;

    pqxx::connection other{conninfo};
    sockets::socket_interrupter interrupter;
    interrupter.hold(other.sock());
    sockets::watchdog watchdog{interrupter};
    watchdog.watch(sockets::watchdog::clock::now() + answer_within);
    try {
        auto const found = share_sessions(c, other) ? pooling::transactions : pooling::sessions;
        watchdog.done();
        return found;
    }
    catch (pqxx::failure const&) {
        if (watchdog.done()) throw;
        throw pqxx::broken_connection{"the pooler before the database gave a second connection no server within 5 s: "
                                      "its pool is too small, or used up"};
    }
}

void refuse_transaction_pooler(pqxx::connection& c, std::string const& conninfo)
{
    if (find_pooling(c, conninfo) != pooling::transactions) return;
    throw configuration_error{
        "DATABASE_URL leads to a pooler that hands out server connections for one transaction at a "
        "time: what Skald sets, prepares and locks on a session would be lost. Connect to the server "
        "itself, or let the pooler work by session (pgbouncer: pool_mode = session)"};
}

}  // namespace skald::postgres
