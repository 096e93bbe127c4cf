# embed(VARIABLE FILE...): reads the files, one after the other, and again when they change.
macro(embed variable)
  set(${variable} "")
  foreach(file ${ARGN})
    file(READ ${file} text)
    string(APPEND ${variable} "${text}")
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
  endforeach()
endmacro()
