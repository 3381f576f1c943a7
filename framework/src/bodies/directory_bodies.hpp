// Large bodies as files of a directory that all services reach: a mount, if they run on several machines.
//
//     ab/abcd...             the body; its time of change says when it was last referred to
//     ab/abcd....HOLDER      an empty file: HOLDER refers to it
//     ab/.lock               held while a body of this folder comes, is touched, or goes
#pragma once

#include "ports/body_store.hpp"

#include <string>
#include <vector>

namespace skald::bodies {

/// Threads: any; and any process that has the directory, also over a network if its locks (flock) work there.
class directory_bodies final : public ports::body_store
{
public:
    /// `holder`: who refers to what is kept here; letters, digits and `-`. The directory must exist.
    directory_bodies(std::string directory, std::string holder);

    std::string name() const override { return "directory:" + root_; }
    void keep(core::body_reference const& what, std::string_view body) override;
    bool hold(core::body_reference const& what) override;
    std::string read(core::body_reference const& what) override;
    std::size_t purge(std::chrono::seconds older_than, std::size_t most,
                      std::function<bool(core::body_reference const&)> const& is_in_use,
                      ports::purge_place& at) override;

private:
    std::string folder_of(std::string const& hex) const { return root_ + '/' + hex.substr(0, 2); }
    std::string path_of(std::string const& hex) const { return folder_of(hex) + '/' + hex; }
    bool purge_one(std::string const& hex, std::chrono::seconds older_than,
                   std::function<bool(core::body_reference const&)> const& is_in_use);
    std::vector<std::string> folders() const;
    void check_it_is_there() const;
    void mark(std::string const& hex) const;

    std::string const root_;
    std::string const holder_;
};

}  // namespace skald::bodies
