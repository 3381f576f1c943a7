#include "rehearsal/rolled_back_store.hpp"

#include "postgres/faults.hpp"
#include "postgres/transaction_text.hpp"
#include "skald_rehearsal_queries.hpp"

#include <pqxx/except>

#include <algorithm>
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
    runs_from_ = std::chrono::steady_clock::now();
    return claimed_;
}

ports::request_claim rolled_back_store::begin_request(ports::claim_item const&,
                                                      std::optional<std::chrono::milliseconds>)
{
    throw std::logic_error{"a request is not rehearsed"};
}

void rolled_back_store::finish_step()
{
    end_run();
    inner_.finish_step();
}

// A step that does not end well is recorded in a second transaction, in which it does not run.
void rolled_back_store::end_run() noexcept
{
    if (runs_from_) ran_ = std::max(ran_, std::chrono::steady_clock::now() - *runs_from_);
    runs_from_.reset();
}

void rolled_back_store::commit(ports::changes const& what)
{
    finish_step();
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
    end_run();
    if (std::exchange(is_open_, false)) {
        seen_ = {};
        seen_.locks = watch_.locks();
    }
    inner_.rollback();
}

}  // namespace skald::rehearsal
