// A real server that speaks S3's API: s3rver, in a process of the test's own, with its files in a directory. It checks
// who asks and not what is signed: signature_test.cpp does. Its copies are not atomic, as S3's are: it may answer 500
// to one whose source goes meanwhile. A test fails where the program is missing (npm installs it with the tests).
#pragma once

#include "core/text.hpp"
#include "rig/process.hpp"
#include "s3/s3_bodies.hpp"
#include "support/temporary_directory.hpp"

#include <skald/testing/wait_until.hpp>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <httplib.h>

namespace skald::test {

class s3_server
{
public:
    s3_server() { start(); }

    void start()
    {
        std::signal(SIGPIPE, SIG_IGN);  // as a worker does
        process_.start();
        auto const answers = [this] {
            httplib::Client client{"127.0.0.1", port_};
            if (auto const got = client.Get("/")) return true;
            if (!process_.is_running()) throw std::runtime_error{"s3rver did not start: " + process_.log()};
            return false;
        };
        if (!testing::wait_until(answers)) throw std::runtime_error{"s3rver does not answer: " + process_.log()};
    }
    void kill() { process_.kill(); }

    std::string url() const { return "http://127.0.0.1:" + std::to_string(port_) + "/skald/shop"; }
    std::string store() const { return "s3:" + url(); }
    s3_detail::client_options options() const
    {
        return {.where = s3_detail::parse_address(url()), .who = {.key = key, .secret = key}};
    }

    /// The files of all objects whose names begin like this.
    std::vector<std::filesystem::path> files(std::string const& begins_with) const
    {
        std::vector<std::filesystem::path> found;
        auto const folder = data_.path() / "skald" / "shop";
        if (!std::filesystem::exists(folder)) return found;
        for (auto const& one : std::filesystem::recursive_directory_iterator{folder}) {
            auto const name = std::filesystem::relative(one.path(), folder).string();
            if (name.starts_with(begins_with) && name.ends_with("._S3rver_object")) found.push_back(one.path());
        }
        return found;
    }

    /// What s3rver knows.
    static constexpr char const* key = "S3RVER";

private:
    temporary_directory data_;
    std::uint16_t const port_{rig::find_free_port()};
    rig::process process_{
        {.program = "/usr/bin/env",
         .arguments = {"node", "--openssl-legacy-provider", SKALD_S3RVER, "--directory", data_.path().string(),
                       "--address", "127.0.0.1", "--port", std::to_string(port_), "--silent", "--no-vhost-buckets",
                       "--configure-bucket", "skald"},
         .inherits_environment = true,
         .name = "s3rver-" + std::to_string(port_)}};
};

}  // namespace skald::test
