#include "database.hpp"

#include "postgres/literal.hpp"
#include "skald_console_queries.hpp"

#include <skald/errors.hpp>

#include <fmt/format.h>

namespace skald::console {
namespace {

constexpr std::chrono::seconds left_alone{3};

std::string first_line(std::string_view text)
{
    return std::string{text.substr(0, text.find('\n'))};
}

}  // namespace

database::database(std::string service, std::string const& url, std::chrono::milliseconds answer_within, rights what)
    : service_{std::move(service)}, what_{what}
{
    options_.url = url;
    options_.application_name = what == rights::reads ? "skald/console" : "skald/console-operator";
    options_.lock_timeout = std::min(answer_within, std::chrono::milliseconds{2'000});
    options_.statement_timeout = answer_within;
    options_.commit_timeout = answer_within;
}

database::loan database::borrow()
{
    {
        std::lock_guard const lock{mutex_};
        if (clock::now() < away_until_) throw away{service_, why_away_};
        if (!idle_.empty()) {
            loan lent{std::move(idle_.back()), true};
            idle_.pop_back();
            return lent;
        }
    }
    try {
        return {connect(), false};
    }
    catch (...) {
        fail();
    }
}

std::unique_ptr<postgres::connection> database::connect()
{
    auto made = std::make_unique<postgres::connection>(options_);
    if (what_ == rights::reads) made->run(std::string{queries::only_read});
    auto const owner = made->run(std::string{queries::owner});
    auto const name = owner.empty() ? std::string{} : std::string{owner[0]["name"].c_str()};
    if (name != service_)
        throw configuration_error{fmt::format("the address given for {} leads to a database {}", service_,
                                              name.empty() ? "that no service owns yet" : "of " + name)};
    return made;
}

void database::give_back(std::unique_ptr<postgres::connection> connection)
{
    std::lock_guard const lock{mutex_};
    idle_.push_back(std::move(connection));
}

void database::fail()
try {
    throw;
}
catch (away const&) {
    throw;
}
catch (pqxx::broken_connection const& error) {
    std::lock_guard const lock{mutex_};
    away_until_ = clock::now() + left_alone;
    why_away_ = first_line(error.what());
    idle_.clear();
    throw away{service_, why_away_};
}
catch (std::exception const& error) {
    throw away{service_, first_line(error.what())};
}

}  // namespace skald::console
