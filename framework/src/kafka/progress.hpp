// What has been settled of one partition. Pure.
//
// Kafka keeps one number for a group and a partition: all before it is done. Deliveries are settled in any order, so
// what is done beyond is kept in a text that Kafka stores beside that number; and so is how often the rest was handed
// out, which Kafka does not count.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <string_view>

namespace skald::kafka_detail {

/// A delivery that came back so often may be what ends the process, or may only have been out along with that.
inline constexpr int suspect_after = 5;

/// How many may be out of a partition beside and with one that came back so often: fewer each time, so that of many
/// suspects the one is found, and the others are done in few turns. In the end it is alone, or all that are out with it
/// would be given up too.
constexpr std::size_t together_max(int returns)
{
    constexpr std::size_t at_first = 64;
    if (returns < suspect_after) return std::numeric_limits<std::size_t>::max();
    auto const fewer = 2 * (returns - suspect_after);
    return fewer >= 6 ? 1 : at_first >> fewer;
}

/// Threads: one.
class progress
{
public:
    /// How far beyond the first one that is not settled others may be handed out. With that many the text, the name of
    /// the database before it and the NUL behind it are within the 4,096 bytes that a broker allows.
    static constexpr std::int64_t window = 16'384;

    /// `from`: the number that Kafka has. `text`: what it has beside it; one that nobody here has written is ignored.
    progress(std::int64_t from, std::string_view text);

    /// Everything below is settled, or was never there.
    std::int64_t head() const;

    bool has_room(std::int64_t offset) const { return offset < head() + window; }
    bool is_settled(std::int64_t offset) const { return offset < head() || settled_.contains(offset); }

    /// None from here on was handed out or passed.
    std::int64_t next() const { return next_; }

    /// How often it was handed out in vain.
    int returns(std::int64_t offset) const;

    void hand_out(std::int64_t offset);

    /// It is nobody's, or settled already.
    void pass(std::int64_t offset);

    /// `offset` is the next that there is. Where nothing is out, the head is there then, however far that is.
    void pass_gap(std::int64_t offset);

    void settle(std::int64_t offset);

    /// It is to be handed out once more.
    void put_back(std::int64_t offset) { ++returned_[offset]; }

    /// It is out no more, nobody has had it, and it is not handed out again here: so it does not count as handed out.
    void take_back(std::int64_t offset) { untouched_.insert(offset); }

    /// For whoever is the next to read the partition, if nothing else is said until then: what is out has come back.
    /// `ahead`: how many may be handed out before this is said again; a suspect is not, nor what is after it.
    std::string text(std::int64_t ahead = 0) const;

private:
    void forget_settled();
    void read_settled(std::string_view digits);
    void read_returned(std::string_view runs);
    std::string settled_text() const;
    std::string returned_text(std::int64_t ahead, std::size_t bytes_max) const;

    std::int64_t next_;                     // none from here on was handed out
    std::set<std::int64_t> out_;            // handed out and not settled
    std::set<std::int64_t> untouched_;      // of those, what was taken back
    std::set<std::int64_t> settled_;        // beyond head()
    std::map<std::int64_t, int> returned_;  // where it is more than none
};

}  // namespace skald::kafka_detail
