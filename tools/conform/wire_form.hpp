// What a message has as other than text on the wire.
#pragma once

namespace skald::conform {

enum class wire_form {
    text,
    home_is_table,
    attempt_is_number,  // x-attempt 1, which is what a message without it has
};

}  // namespace skald::conform
