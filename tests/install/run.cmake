function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

file(REMOVE_RECURSE ${WORK}/first ${WORK}/moved ${WORK}/build)
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/first --component runtime)
file(RENAME ${WORK}/first ${WORK}/moved)
run(${CMAKE_COMMAND} -S ${SOURCE} -B ${WORK}/build -G ${GENERATOR} -DCMAKE_C_COMPILER=${CC}
    -DCMAKE_PREFIX_PATH=${WORK}/moved)
run(${CMAKE_COMMAND} --build ${WORK}/build)
run(${WORK}/build/user_runtime)
run(${WORK}/build/user_runtime_static)

if(PKG_CONFIG)
  set(ENV{PKG_CONFIG_PATH} ${WORK}/moved/${LIBDIR}/pkgconfig)
  set(ENV{LD_LIBRARY_PATH} ${WORK}/moved/${LIBDIR})
  execute_process(COMMAND ${PKG_CONFIG} --cflags --libs fk OUTPUT_VARIABLE flags
                  OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  separate_arguments(flags)
  run(${CC} ${SOURCE}/user.c ${flags} -o ${WORK}/build/user_pkg)
  run(${WORK}/build/user_pkg)
else()
  message("skipped: no pkg-config")
endif()
