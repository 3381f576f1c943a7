# skald_embed_sql(TARGET HEADER <name> NAMESPACE <ns> FILES <file.sql>...)
#
# Makes <build>/generated/<HEADER> with one std::string_view constant for each file, named after it; or, for a file that has
# blocks headed `-- name: something`, one for each block. A block whose parameters are named (`:scope::text`) becomes a struct
# with a member for each (postgres/literal.hpp). Adds the folder to TARGET's include path.
set(SKALD_EMBED_SQL_SCRIPT ${CMAKE_CURRENT_LIST_DIR}/embed_sql.cmake)

function(skald_embed_sql target)
    cmake_parse_arguments(ARG "" "HEADER;NAMESPACE" "FILES" ${ARGN})
    set(folder ${CMAKE_CURRENT_BINARY_DIR}/generated)
    set(paths)
    foreach(file IN LISTS ARG_FILES)
        get_filename_component(path ${file} ABSOLUTE)
        list(APPEND paths ${path})
    endforeach()
    add_custom_command(
        OUTPUT ${folder}/${ARG_HEADER}
        COMMAND ${CMAKE_COMMAND} "-DOUTPUT=${folder}/${ARG_HEADER}" "-DNAMESPACE=${ARG_NAMESPACE}" "-DFILES=${paths}"
                -P ${SKALD_EMBED_SQL_SCRIPT}
        DEPENDS ${paths} ${SKALD_EMBED_SQL_SCRIPT}
        COMMENT "Embedding SQL into ${ARG_HEADER}"
        VERBATIM)
    target_sources(${target} PRIVATE ${folder}/${ARG_HEADER})
    target_include_directories(${target} PUBLIC ${folder})
endfunction()
