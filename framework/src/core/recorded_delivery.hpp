// A recorded delivery, so that exactly the same message can be delivered again: in a test, or in a staging system.
//
// JSON Lines, one delivery per line: what `skald parked export` prints, a process with SKALD_RECORD_DELIVERIES writes,
// and the test kit reads. The format is a public contract: docs/recorded.md.
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

/// How the delivery came to be parked. For people: read_recorded() ignores it.
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
    std::optional<recorded_step> record;  // nothing if the step has none
};

/// One line, without its line end. A body that JSON can't hold as text is written in base64. Anything else that is not
/// UTF-8 is escaped, as it was when it was parked; of two headers with the same name the last is kept.
std::string write_recorded(message const& received, recorded_parking const& parking);

/// The same of one that was not parked.
std::string write_recorded(message const& received);

/// The messages of a recording, in its order, ready to be sent or injected: body, headers, id, type, content type and
/// destination as they were. Headers are sorted by name. Empty lines are skipped.
///
/// Throws: data_error with the line number, what is wrong in it and what to do; also if there is no delivery at all,
/// because a test that replays nothing would pass.
std::vector<message> read_recorded(std::string_view lines);

}  // namespace skald::core
