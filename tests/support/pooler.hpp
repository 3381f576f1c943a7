// A pgbouncer for one test in front of the server of DATABASE_URL, gone when the test is.
#pragma once

#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <pqxx/pqxx>

#include "support/fresh_database.hpp"
#include "support/service_process.hpp"

namespace skald::test {

/// Threads: one at a time.
class pooler
{
public:
    /// `mode`: session, transaction or statement. `more`: lines of its configuration.
    explicit pooler(std::string const& mode, std::string const& more = {})
        : server_{server()}, port_{rig::find_free_port()}
    {
        char name[] = "/tmp/skald-pooler-XXXXXX";
        if (::mkdtemp(name) == nullptr) throw std::runtime_error{"no folder for a pooler"};
        folder_ = name;
        ::chmod(name, 0755);
        std::ofstream{folder_ + "/pgbouncer.ini"}
            << "[databases]\n* = " << server_ << "\n[pgbouncer]\npool_mode = " << mode
            << "\nauth_type = any\nlisten_addr = 127.0.0.1\nlisten_port = " << port_ << "\nunix_socket_dir =\n"
            << more << '\n';
        process_ =
            std::make_unique<service_process>(command().front(), arguments(), environment{{"PATH", "/usr/bin:/bin"}});
        start();
    }
    pooler(pooler const&) = delete;
    pooler& operator=(pooler const&) = delete;
    ~pooler()
    {
        process_.reset();
        std::error_code ignored;
        std::filesystem::remove_all(folder_, ignored);
    }

    /// The URL of `database` through it.
    std::string url(fresh_database const& database) const
    {
        return "postgresql://app@127.0.0.1:" + std::to_string(port_) + '/' + database.name();
    }

    /// Every connection through it breaks at once, whatever it is doing.
    void kill_and_restart()
    {
        process_->kill(SIGKILL);
        process_->wait();
        start();
    }

private:
    void start()
    {
        process_->start();
        if (!wait_until([&] { return process_->has_logged("process up") || !process_->is_running(); }) ||
            !process_->is_running())
            throw std::runtime_error{"pgbouncer did not start (scripts/setup.sh installs it): " + process_->log()};
    }

    static std::string server()
    {
        pqxx::connection c{required("DATABASE_URL")};
        return std::string{"host="} + c.hostname() + " port=" + c.port() + " user=" + c.username();
    }

    // pgbouncer refuses to run as root. Changing the user would make it outlive a killed test, unless --pdeathsig is
    // given.
    static std::vector<std::string> command()
    {
        if (::geteuid() != 0) return {"/usr/sbin/pgbouncer"};
        return {"/usr/bin/setpriv", "--reuid=postgres",    "--regid=postgres",
                "--init-groups",    "--pdeathsig=SIGKILL", "/usr/sbin/pgbouncer"};
    }
    std::vector<std::string> arguments() const
    {
        auto words = command();
        words.erase(words.begin());
        words.push_back(folder_ + "/pgbouncer.ini");
        return words;
    }

    std::string server_, folder_;
    std::uint16_t port_;
    std::unique_ptr<service_process> process_;
};

}  // namespace skald::test
