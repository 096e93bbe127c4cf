# embed(VARIABLE FILE...): sets VARIABLE to the texts of the files, joined. A change of a file
# configures again.
macro(embed variable)
  set(${variable} "")
  foreach(file ${ARGN})
    file(READ ${file} text)
    string(APPEND ${variable} "${text}")
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
  endforeach()
endmacro()
