// What a consumer hands out, in which turn, and what comes back.
#include "kafka/consumer.hpp"

#include "core/failpoint.hpp"

#include <algorithm>
#include <utility>

namespace skald::kafka_detail {
namespace {

// At a time out of one partition: the others have their turn.
constexpr int records_max = 64;

}  // namespace

// An answer to who may not read a partition has no high watermark, nor is there any before the first answer.
bool consumer::is_read(place const& where) const
{
    std::int64_t low = -1, high = -1;
    rd_kafka_get_watermark_offsets(client_.raw(), where.first.c_str(), where.second, &low, &high);
    return high >= 0;
}

bool consumer::is_member() const
{
    return is_assigned_ && std::ranges::all_of(partitions_, [this](auto const& one) { return is_read(one.first); });
}

bool consumer::is_read_whole(std::string const& topic) const
{
    return std::ranges::all_of(partitions_,
                               [&](auto const& one) { return one.first.first != topic || is_read(one.first); });
}

std::string consumer::unreadable() const
{
    std::string all;
    for (auto const& [topic, why] : unreadable_)
        if (!is_read_whole(topic)) all += (all.empty() ? "" : "; ") + why;
    return all;
}

bool consumer::has_room() const
{
    for (std::size_t i = 0; i < routes_.size(); ++i)
        if (routes_[i].has_room()) return true;
    return false;
}

bool consumer::take(transports::mailbox& box)
{
    if (is_stopping_) return false;
    std::vector<ports::delivery> taken;
    take_again(taken);
    bool more = false;
    // Each partition is the first in turn.
    auto const first = partitions_.upper_bound(last_taken_);
    for (auto one = first; one != partitions_.end(); ++one) more = take_of(one->first, one->second, taken) || more;
    for (auto one = partitions_.begin(); one != first; ++one) more = take_of(one->first, one->second, taken) || more;
    last_taken_ = first == partitions_.end() ? place{} : first->first;
    // Or they would not be counted if one of them ends this process now.
    bool const has_suspect = std::ranges::any_of(taken, [](auto const& one) { return one.returns >= suspect_after; });
    if (has_suspect && !joins_until_) commit(true);
    SKALD_FAILPOINT_IF(!taken.empty(), "consumer.delivered");
    auto const refused = box.deliver(std::move(taken));
    if (!refused.empty()) stop();  // which was asked for a moment ago
    for (auto const& one : refused) requeue(one.tag);
    return more;
}

void consumer::take_again(std::vector<ports::delivery>& into)
{
    for (auto& one : std::exchange(again_, {})) {
        if (!may_go_out(partitions_.at(one.from), 1, one.returns)) {
            again_.push_back(std::move(one));
            continue;
        }
        auto const as = routes_.read(*one.record);
        into.push_back(hand_over(std::move(one), as));
    }
}

// Where there are too many, what is out is waited for.
bool consumer::may_go_out(partition const& of, std::size_t copies, int returns)
{
    if (of.together.empty()) return true;
    return of.together.size() + copies <= std::min(*of.together.begin(), together_max(returns));
}

bool consumer::has_suspect_waiting(place const& where) const
{
    return std::ranges::any_of(again_, [&](copy const& one) { return one.is_suspect() && one.from == where; });
}

bool consumer::take_of(place const& where, partition& of, std::vector<ports::delivery>& into)
{
    for (int i = 0; i < records_max; ++i)
        if (of.is_leaving || !has_room() || !take_next(where, of, into)) return false;
    return true;
}

// False if there is none, or no room for it.
bool consumer::take_next(place const& where, partition& of, std::vector<ports::delivery>& into)
{
    if (!of.next) {
        auto* const raw = rd_kafka_consume_queue(of.records.get(), 0);
        if (raw == nullptr) return false;
        of.next = record_ptr{raw, rd_kafka_message_destroy};
    }
    if (of.next->err == RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET) return wait_to_begin_anew(where, of);
    if (of.next->err != RD_KAFKA_RESP_ERR_NO_ERROR) {
        auto const error = std::exchange(of.next, nullptr);
        std::string const why = rd_kafka_message_errstr(error.get());
        // Each partition tells it. What is out comes back each time that it is said.
        if (!is_denial(error->err)) throw kafka_error{why};
        auto const [said, is_first] = unreadable_.emplace(where.first, why + give("Read", "the topic " + where.first));
        if (!is_first) return false;
        throw denied{said->second};
    }
    auto const offset = of.next->offset;
    if (offset < of.done.next()) throw client_lost{where.first + " has begun anew: it was made again"};
    ask_for_missing(where, of.done.next(), offset);
    of.done.pass_gap(offset);
    if (!of.done.has_room(offset)) return false;
    auto const as = routes_.read(*of.next);
    if (as.to.empty() || of.done.is_settled(offset)) {
        of.done.pass(offset);
        of.next.reset();
        is_uncommitted_ = true;
        return true;
    }
    if (!std::ranges::all_of(as.to, [this](std::size_t to) { return routes_[to].has_room(); })) return false;
    auto const returns = of.done.returns(offset);
    if (!may_go_out(of, as.to.size(), returns) || has_suspect_waiting(where)) return false;
    if (returns >= suspect_after && joins_until_) return false;
    auto const record = std::exchange(of.next, nullptr);
    of.done.hand_out(offset);
    of.copies.emplace(offset, static_cast<int>(as.to.size()));
    is_uncommitted_ = true;
    for (auto const to : as.to) {
        ++routes_[to].out;
        into.push_back(hand_over({where, record, to, returns}, as));
    }
    return true;
}

// What would come next is not there any more, or not yet: a limit of retention has overtaken this process, or the topic
// was made again. open() says which. What is out could not come a second time: it is waited for.
bool consumer::wait_to_begin_anew(place const& where, partition const& of)
{
    if (!of.copies.empty()) return false;
    auto const why = where.first + ": " + rd_kafka_message_errstr(of.next.get());
    if (!joins_until_) commit(true);
    throw client_lost{why};
}

// Each record of the service's topics has the number after the one before, unless somebody writes transactions there.
// So what is missing is asked for once more, on a new connection, before it is taken for nothing
// (docs/adr/0063-what-kafka-does-not-hand-out-is-asked-for-again.md).
void consumer::ask_for_missing(place const& where, std::int64_t from, std::int64_t to)
{
    if (from == to || !routes_.is_own(where.first)) return;
    if (!settings_.gaps->emplace(where, from).second) return;
    throw client_lost{"of partition " + std::to_string(where.second) + " of " + where.first + " the records from " +
                      std::to_string(from) + " to before " + std::to_string(to) +
                      " did not come: they are asked for again"};
}

ports::delivery consumer::hand_over(copy one, routed_record const& as)
{
    ports::delivery made;
    made.tag = {generation_, ++last_number_, 1};
    made.returns = one.returns;
    made.given_up = one.returns > delivery_limit;
    made.problem = as.problem;
    bool const is_of_another = !as.handler.empty();  // process: the message says for which handler
    made.message = is_of_another ? as.message : routes_.addressed(as.message, one.to);
    made.handler = is_of_another ? as.handler : routes_[one.to].handler;
    partitions_.at(one.from).together.insert(together_max(one.returns));
    out_.emplace(last_number_, std::move(one));
    return made;
}

void consumer::take_back(std::uint64_t generation)
{
    generation_ = generation;
    for (auto& [number, one] : std::exchange(out_, {})) {
        is_back(one);
        put_back(std::move(one));
    }
}

std::optional<consumer::copy> consumer::find_out(ports::delivery_tag tag)
{
    auto const found = tag.generation == generation_ ? out_.find(tag.number) : out_.end();
    if (found == out_.end()) return {};
    auto one = std::move(found->second);
    out_.erase(found);
    is_back(one);
    return one;
}

void consumer::is_back(copy const& one)
{
    auto& together = partitions_.at(one.from).together;
    if (auto const found = together.find(together_max(one.returns)); found != together.end()) together.erase(found);
}

void consumer::put_back(copy one)
{
    auto& of = partitions_.at(one.from);
    is_uncommitted_ = true;
    if (is_stopping_ || of.is_leaving) {  // whoever has the partition next gets it
        --routes_[one.to].out;
        return;
    }
    if (++one.returns > of.done.returns(one.record->offset)) of.done.put_back(one.record->offset);
    again_.push_back(std::move(one));
}

void consumer::requeue(ports::delivery_tag tag)
{
    auto one = find_out(tag);
    if (!one) return;
    // While this process stops it is what nobody took, and has not run unless another copy may have. If that counted,
    // each stop under a backlog would bring it nearer to being given up.
    auto const is_of_same = [&](auto const& other) { return other.second.record == one->record; };
    if (is_stopping_ && std::ranges::none_of(out_, is_of_same))
        partitions_.at(one->from).done.take_back(one->record->offset);
    put_back(std::move(*one));
}

}  // namespace skald::kafka_detail
