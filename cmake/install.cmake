# cmake --install, the compiler's part (the runtime's is in runtime/): fkc and fkrun, libfkc static and
# shared, fkc.h, the targets fkc::fkc (the program) and fkc::compiler (the library), fkc.pc.
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/fkc)
set_target_properties(fkc_shared PROPERTIES EXPORT_NAME compiler)
target_include_directories(fkc_shared INTERFACE $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/compiler>)
install(TARGETS fkc fkc_shared EXPORT fkcCompiler
        RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT compiler
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT compiler
        INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/fkc)
install(TARGETS fkrun RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT compiler)
# All of the compiler but LLVM in one archive; its user links LLVM 19.
install(TARGETS fkc_static ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT compiler)
install(FILES ${CMAKE_SOURCE_DIR}/compiler/fkc.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/fkc
        COMPONENT compiler)
install(EXPORT fkcCompiler NAMESPACE fkc:: FILE fkcCompiler.cmake DESTINATION ${package}
        COMPONENT compiler)
file(RELATIVE_PATH up /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(${CMAKE_SOURCE_DIR}/cmake/fkc.pc.in ${CMAKE_CURRENT_BINARY_DIR}/fkc.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/fkc.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig
        COMPONENT compiler)
