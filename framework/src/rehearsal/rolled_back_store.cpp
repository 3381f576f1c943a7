#include "rehearsal/rolled_back_store.hpp"

#include "postgres/faults.hpp"
#include "postgres/transaction_text.hpp"
#include "skald_rehearsal_queries.hpp"

#include <pqxx/except>

#include <stdexcept>
#include <utility>

namespace skald::rehearsal {

rolled_back_store::rolled_back_store(postgres::connection_options options, std::string const& preparation,
                                     observer& watch)
    : inner_{std::move(options)}, watch_{watch}
{
    inner_.set_opening(std::string{rehearsal_queries::open_rehearsal} + preparation);
}

std::vector<ports::claim_answer> rolled_back_store::begin(std::span<ports::claim_item const> items,
                                                          ports::claim_options const& how)
{
    changes_ = {};
    watch_.watch(inner_.open().raw().backendpid());
    is_open_ = true;
    claimed_ = inner_.begin(items, how);
    return claimed_;
}

ports::request_claim rolled_back_store::begin_request(ports::claim_item const&,
                                                      std::optional<std::chrono::milliseconds>)
{
    throw std::logic_error{"a request is not rehearsed"};
}

void rolled_back_store::commit(ports::changes const& what)
{
    inner_.finish_step();
    auto& c = inner_.open();
    try {
        c.run(postgres::changes_text(what) + "SET CONSTRAINTS ALL IMMEDIATE");
    }
    catch (pqxx::failure const&) {
        auto const met = postgres::classify_current_of_ours();
        rollback();
        throw met;
    }
    changes_ = what;
    seen_ = watch_.look(c);
    is_open_ = false;
    inner_.rollback();
}

void rolled_back_store::write(ports::changes const&)
{
    throw std::logic_error{"only a step is rehearsed"};
}

// What it had locked is of interest even if the step failed.
void rolled_back_store::rollback() noexcept
{
    if (std::exchange(is_open_, false)) {
        seen_ = {};
        seen_.locks = watch_.locks();
    }
    inner_.rollback();
}

}  // namespace skald::rehearsal
