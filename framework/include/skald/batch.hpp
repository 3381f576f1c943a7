// Many deliveries in one transaction: how many, and steps that handle all of them in one statement.
//
// A lane runs what has arrived for it in one transaction, each delivery with its own execute(). If one of them does not
// complete, nothing of that transaction remains, and each runs again by itself; so batching changes what steps cost and
// never what they do. A step that can handle a whole batch in one statement says so by deriving from batch_step in
// addition to its kind:
//
//     class charge_payment final : public skald::compensatable_step<order>, public skald::batch_step<order> {
//         skald::batch_outcome execute_batch(skald::batch<order>& all) const override
//         {
//             auto rows = nlohmann::json::array();
//             for (auto& one : all) rows.push_back({{"key", one.ctx.key()}, {"amount", one.data.total}});
//             auto const written = all.sql("INSERT INTO charge (key, amount) SELECT m.key, m.amount"
//                                          "  FROM jsonb_to_recordset($1::jsonb) AS m(key text, amount bigint)",
//                                          rows.dump());
//             return std::cmp_equal(written.affected_rows(), all.size()) ? skald::all_done() : skald::one_by_one();
//         }
//         ...
//     };
#pragma once

#include <skald/outcome.hpp>
#include <skald/step_context.hpp>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace skald {

/// What execute_batch() returns.
enum class batch_outcome {
    all_done,    // as if execute() had returned done() for each, or reject() for members that were rejected
    one_by_one,  // nothing of it remains, and execute() runs for each: one of them may reject, or be at fault
};

/// The work of every delivery is done.
constexpr batch_outcome all_done()
{
    return batch_outcome::all_done;
}
/// It is not, or not known for all of them.
constexpr batch_outcome one_by_one()
{
    return batch_outcome::one_by_one;
}

/// One delivery of a batch.
template <class Data>
struct batch_member
{
    step_context& ctx;                  // its key, its scope, and what it publishes
    Data& data;                         // changes travel to its next step
    std::optional<reject_outcome>& no;  // the argument of reject()

    /// As if execute() had returned skald::reject(): its saga compensates, and the others go on. Call it only if the
    /// batch has written nothing for this member, since nothing is undone for one member. A retriable step can't
    /// reject; if it does, that counts as one_by_one().
    void reject(std::string reason) const { no = skald::reject(std::move(reason)); }
};

/// The deliveries of one step that run together: two or more, of different sagas.
/// Lifetime, threads and transaction: those of a step_context.
template <class Data>
class batch
{
public:
    /// Created by Skald; a test of a step may create one, too.
    explicit batch(std::vector<batch_member<Data>> members) : members_{std::move(members)} {}

    std::size_t size() const { return members_.size(); }  // at least two

    /// In the order in which they were delivered; each is a batch_member.
    auto begin() const { return members_.begin(); }
    auto end() const { return members_.end(); }  // past the last

    /// As step_context::sql(), in the same transaction.
    template <class... Args>
    pqxx::result sql(std::string_view text, Args const&... args)
    {
        return members_.front().ctx.sql(text, args...);
    }

private:
    std::vector<batch_member<Data>> members_;
};

/// A step that handles a whole batch at once. It does what execute() would do for each and returns all_done(), or it
/// returns one_by_one(); an exception means the same as one_by_one(). execute() is still called: for a delivery that
/// arrives alone, after a failure, and for a retry.
template <class Data>
class batch_step
{
public:
    virtual ~batch_step() = default;
    /// Threads: any lane, several at a time, as for execute().
    virtual batch_outcome execute_batch(batch<Data>& all) const = 0;
};

}  // namespace skald
