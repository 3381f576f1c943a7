// A real store that loses its connection at COMMIT, before the server has received it or after: a client can't tell the
// two apart.
#pragma once

#include "postgres/postgres_store.hpp"

#include <functional>
#include <utility>

namespace skald::test {

class doubtful_store final : public ports::store
{
public:
    enum class loses { nothing, the_answer, the_commit };

    explicit doubtful_store(std::string const& url, std::chrono::milliseconds lock_timeout = std::chrono::seconds{5})
        : inner_{{.url = url, .lock_timeout = lock_timeout}}
    {}

    void connect() override { inner_.connect(); }
    std::vector<ports::claim_answer> begin(std::span<ports::claim_item const> items,
                                           ports::claim_options const& how) override
    {
        auto answers = inner_.begin(items, how);
        if (auto const then = std::exchange(after_begin, {})) then();
        return answers;
    }
    ports::request_claim begin_request(ports::claim_item const& item,
                                       std::optional<std::chrono::milliseconds> wait) override
    {
        auto met = inner_.begin_request(item, wait);
        if (auto const then = std::exchange(after_begin, {})) then();
        return met;
    }
    void savepoint() override { inner_.savepoint(); }
    void undo_to_savepoint() override { inner_.undo_to_savepoint(); }
    detail::unit_of_work& unit() override { return inner_.unit(); }
    core::instant claimed_at() const override { return inner_.claimed_at(); }
    std::string read_body(core::body_reference const& what) override
    {
        require_bodies();
        return inner_.read_body(what);
    }
    void write(ports::changes const& what) override { inner_.write(what); }
    ports::transaction_state state() noexcept override { return inner_.state(); }
    void rollback() noexcept override
    {
        inner_.rollback();
        if (auto const then = std::exchange(after_rollback, {})) then();
    }
    ports::fault classify_current() override { return inner_.classify_current(); }

    std::vector<std::int64_t> new_rows(std::size_t count) override { return inner_.new_rows(count); }

    void finish_step() override { inner_.finish_step(); }

    void commit(ports::changes const& what) override
    {
        require_bodies();
        lose([&] { inner_.commit(what); }, [this] { inner_.rollback(); });
    }

    loses next{loses::nothing};
    bool has_no_bodies{};  // what keeps large ones is away
    // Each is called once.
    std::function<void()> after_begin{};
    std::function<void()> after_rollback{};
    std::function<void()> after_loss{};

private:
    void require_bodies()
    {
        if (!has_no_bodies) return;
        inner_.rollback();
        throw ports::fault{ports::fault_kind::unavailable, "the store of large bodies is away"};
    }
    template <class Commit, class Rollback>
    void lose(Commit commit, Rollback rollback)
    {
        auto const loss = std::exchange(next, loses::nothing);
        if (loss == loses::the_commit) rollback();
        else commit();
        if (auto const then = loss != loses::nothing ? std::exchange(after_loss, {}) : nullptr) then();
        if (loss != loses::nothing) throw ports::fault{ports::fault_kind::in_doubt, "the connection was lost"};
    }

    postgres::postgres_store inner_;
};

}  // namespace skald::test
