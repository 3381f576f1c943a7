// A delivery written down, so that the very same message can be delivered again: in a test, or in a staging system.
//
// JSON Lines, one delivery a line: what `skald parked export` prints and the test kit reads. The format is a contract
// with what is outside: docs/operations.md, "Recorded deliveries".
#pragma once

#include "core/message.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace skald::core {

inline constexpr std::string_view recording_format = "skald.delivery/1";

/// The guard's record of the step when the delivery was recorded.
struct recorded_step
{
    std::string status;
    int attempts{};
    int snoozes{};
};

/// How the delivery came to be parked. For people: read_recorded() does not look at it.
struct recorded_parking
{
    std::int64_t id{};
    std::string scope;
    std::string key;
    std::string step;  // with its ".compensate"
    std::string reason;
    std::string error;
    int attempts{};
    std::string parked_at;
    std::optional<recorded_step> record;  // nothing where the step has none
};

/// One line, without its end. A body that is no text that JSON can hold is written in base64. What is not UTF-8
/// elsewhere is escaped, as it was when it was parked; of two headers with one name the last is kept.
std::string write_recorded(message const& received, recorded_parking const& parking);

/// The messages of a recording, in its order, ready to be sent or injected: body, headers, id, type, content type and
/// destination as they were. Headers come in the order of their names. Lines without anything in them are skipped.
///
/// Throws: data_error with the number of the line, what is wrong in it and what to do; also where there is no delivery
/// at all, for a test that replays nothing would pass.
std::vector<message> read_recorded(std::string_view lines);

}  // namespace skald::core
