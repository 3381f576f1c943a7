// What Skald throws at its callers. All derive from std::runtime_error; each message says what to do.
#pragma once

#include <stdexcept>

namespace skald {

/// A setting, a definition or the way services are set up is wrong. Thrown before anything runs.
struct configuration_error : std::runtime_error
{
    using std::runtime_error::runtime_error;
};

/// The key has been used for something else.
struct key_reused : std::runtime_error
{
    using std::runtime_error::runtime_error;
};

/// Another transaction is starting a saga with this key right now. Roll back and try again.
struct key_in_flight : std::runtime_error
{
    using std::runtime_error::runtime_error;
};

/// A command can't be given to the saga as it is now: it has ended, say, or is past its pivot; `what()` says why.
struct command_refused : std::runtime_error
{
    using std::runtime_error::runtime_error;
};

/// The saga's data is not JSON that Skald accepts, or does not fit the data type of the saga.
struct data_error : std::runtime_error
{
    using std::runtime_error::runtime_error;
};

}  // namespace skald
