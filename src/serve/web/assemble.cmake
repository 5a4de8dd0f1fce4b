# Assembles the web page into one file. CMakeLists.txt runs it as
#   cmake -D SOURCE=folder -D STYLES=a;b -D SCRIPTS=a;b -D OUTPUT=index.html -P assemble.cmake
# The output is page.html with the texts of style/a.css, style/b.css and script/a.js, script/b.js
# inserted. Its Content-Security-Policy has the hashes of these texts, so that a browser runs no
# other script and applies no other style.

function(read_all folder extension names result)
  set(all "")
  foreach(name IN LISTS names)
    file(READ ${SOURCE}/${folder}/${name}.${extension} text)
    string(APPEND all "\n" "${text}")
  endforeach()
  set(${result} "${all}" PARENT_SCOPE)
endfunction()

# Sets `result` to the SHA-256 hash of `text` in the form that a policy needs. The hash must be in
# base64, which CMake cannot write. A group of three bytes becomes four letters, and the last group
# has only two bytes.
function(policy_hash text result)
  set(alphabet "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
  string(SHA256 digits "${text}")
  set(letters "")
  foreach(begin RANGE 0 60 6)
    string(SUBSTRING "${digits}00" ${begin} 6 group)
    foreach(shift 18 12 6 0)
      math(EXPR index "(0x${group} >> ${shift}) & 63")
      string(SUBSTRING "${alphabet}" ${index} 1 letter)
      string(APPEND letters "${letter}")
    endforeach()
  endforeach()
  string(SUBSTRING "${letters}" 0 43 letters)
  set(${result} "sha256-${letters}=" PARENT_SCOPE)
endfunction()

read_all(style css "${STYLES}" style)
read_all(script js "${SCRIPTS}" script)
policy_hash("${style}" style_hash)
policy_hash("${script}" script_hash)
file(READ ${SOURCE}/page.html page)
# The style and the script are inserted last, since their texts may contain such placeholders.
string(REPLACE "@STYLE_HASH@" "${style_hash}" page "${page}")
string(REPLACE "@SCRIPT_HASH@" "${script_hash}" page "${page}")
string(REPLACE "@STYLE@" "${style}" page "${page}")
string(REPLACE "@SCRIPT@" "${script}" page "${page}")
file(WRITE ${OUTPUT} "${page}")
