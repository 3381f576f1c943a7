// skald-bench: bench/README.md says what it measures and how.
#include "options.hpp"
#include "report.hpp"
#include "scenarios.hpp"

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>

#include <fmt/format.h>
#include <unistd.h>

namespace {

using namespace skald_bench;

/// For the services' logs, unless a folder was given: deleted with this, unless something went wrong.
class log_folder
{
public:
    explicit log_folder(options& chosen) : is_ours_{chosen.logs.empty()}
    {
        if (is_ours_) {
            auto pattern = (std::filesystem::temp_directory_path() / "skald-bench.XXXXXX").string();
            if (::mkdtemp(pattern.data()) == nullptr)
                throw std::runtime_error{"can't make a folder for logs: " + pattern};
            chosen.logs = pattern;
        }
        std::filesystem::create_directories(chosen.logs);
        path_ = chosen.logs;
    }
    ~log_folder()
    {
        std::error_code ignored;
        if (is_ours_) std::filesystem::remove_all(path_, ignored);
    }
    log_folder(log_folder const&) = delete;
    log_folder& operator=(log_folder const&) = delete;

private:
    bool is_ours_;
    std::filesystem::path path_;
};

int run(options chosen)
{
    skald::rig::signals const interruptions;
    ::unsetenv("SKALD_TEST_STACK");  // the test suite's, and not a setting of a service
    log_folder const logs{chosen};
    bench const b{chosen, interruptions};
    report out{chosen};
    {
        bench_databases databases{chosen.database_url, chosen.tcp};
        out.settings(describe_settings(databases, chosen.broker_url));
        if (!machine{databases, broker_port(chosen, implementation::framework)}.sees_servers())
            out.say("The servers' processes can't be seen from here: their processor time is missing.");
    }
    run_scenarios(b, out);
    out.write();
    return 0;
}

}  // namespace

int main(int argc, char** argv)
try {
    return run(read_options(argc, argv));
}
catch (end_of_program const& end) {
    return end.code;
}
catch (skald::rig::interrupted const& how) {
    std::fprintf(stderr, "skald-bench: interrupted, all services have been stopped\n");
    return 128 + how.signal;
}
catch (std::exception const& error) {
    std::fprintf(stderr, "skald-bench: error: %s\n", error.what());
    return 1;
}
