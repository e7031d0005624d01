# A first build compiles all of harness and simulator, and most of that is headers: a folder's C++ files are compiled as one.
# To work on them, and for clang-tidy, each can be compiled by itself.
option(JOIN_SOURCES "Compile the C++ files of a folder of harness or simulator together" ON)
function(join_sources target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${JOIN_SOURCES} UNITY_BUILD_MODE GROUP)
  list(FILTER ARGN INCLUDE REGEX "\\.cpp$")
  foreach(source IN LISTS ARGN)
    get_filename_component(folder ${source} DIRECTORY)
    get_filename_component(folder ${folder} NAME)
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${folder})
  endforeach()
endfunction()
