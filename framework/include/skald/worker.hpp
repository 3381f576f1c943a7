// The worker: a service's process. It consumes the service's deliveries and runs its steps, relays its outbox, and
// serves its HTTP entry, until SIGTERM.
//
//     int main(int argc, char** argv) { return skald::run_service(payments, argc, argv); }
#pragma once

#include <skald/config.hpp>
#include <skald/entry.hpp>
#include <skald/errors.hpp>
#include <skald/log.hpp>
#include <skald/service.hpp>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace skald {

/// Threads:  build it and call run() on one thread; stop() from any.
class worker
{
public:
    /// Writes its log lines to `log`; empty: to standard error. Either gets those of at least `settings.log_level`.
    /// Throws configuration_error, also if `what` does not host all steps that its definitions give it. Connects to
    /// nothing yet.
    worker(service what, config settings, std::shared_ptr<logger> log = {});
    ~worker();
    worker(worker const&) = delete;
    worker& operator=(worker const&) = delete;

    /// Connects, serves, and drains on SIGTERM, SIGINT or stop(). Waits for a database or broker that is unavailable.
    /// Call it once for each worker. `on_start` is called on this thread once it serves; for a server of the caller's
    /// own, whose threads should not get the signals.
    ///
    /// Returns: 0 after a clean drain. If the drain is cut short (a second signal, or its time limit), the process ends
    ///          here with exit code 75, because a thread that is stuck in a step can't be stopped; what was not
    ///          committed is delivered again. A start ends when the statement that it waits for has, after one
    ///          signal or two.
    /// Threads: starts its own, and returns when they have ended. SIGTERM and SIGINT are blocked meanwhile in this
    ///          thread and in those that it starts; SIGPIPE is ignored in the whole process from then on.
    /// Throws:  configuration_error for what waiting does not fix, such as a migration that fails. A signal that came
    ///          by then is taken: end, rather than run another one.
    int run(std::function<void()> const& on_start = {});

    /// Does what SIGTERM does. May be called before run(), which then drains at once.
    void stop();

    /// Answers requests that a server of the caller's own has received. They get 503 until run() has prepared the
    /// database, and once it drains: end that server before stop().
    skald::entry& entry();

private:
    class implementation;
    std::unique_ptr<implementation> implementation_;
};

/// A whole main(): reads the environment and the command line (`--help` lists the settings), runs the service, and
/// prints errors as one line. Exit codes: 0 drained, 1 what may pass, such as a listen address that is not there yet, 2
/// a setting is wrong, 75 cut short. With `--rehearse KEY:STEP` it runs that step once, rolls it back, and prints what
/// it would do (docs/rehearsal.md): 0 if it would be done, or its first transaction would commit; 1 for another end; 2
/// if there is nothing to rehearse. With `--check-stored` it changes nothing: 0 if it could run all that is stored, 1
/// if not, or if the database can't be examined (docs/change.md).
int run_service(service what, int argc, char const* const* argv, std::shared_ptr<logger> log = {});

/// A flag of the program's own on its command line: `--driver-age-min 21`, or `--driver-age-min=21`.
struct program_option
{
    std::string flag;    // "--driver-age-min": lower-case letters, digits and dashes; none of Skald's
    std::string* value;  // what follows it; left as it is where the flag is absent. Lifetime: the call
    std::string help;    // for `--help`
};

/// The same for a service that `make` builds once those flags are read. What it throws is printed as one line, too:
/// main() needs no `try`.
int run_service(std::function<service()> const& make, int argc, char const* const* argv,
                std::vector<program_option> const& own = {}, std::shared_ptr<logger> log = {});

}  // namespace skald
