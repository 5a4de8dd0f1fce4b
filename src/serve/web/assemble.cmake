# cmake -D SOURCE=folder -D STYLES=a;b -D SCRIPTS=a;b -D OUTPUT=index.html -P assemble.cmake: page.html with style/a.css, ...
# and script/a.js, ... in it, one after the other, and their hashes in its Content-Security-Policy.

function(read_all folder extension names result)
  set(all "")
  foreach(name IN LISTS names)
    file(READ ${SOURCE}/${folder}/${name}.${extension} text)
    string(APPEND all "\n" "${text}")
  endforeach()
  set(${result} "${all}" PARENT_SCOPE)
endfunction()

# Policies want base64, of which CMake knows nothing.
function(policy_hash text result)
  set(alphabet "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
  string(SHA256 digits "${text}")
  set(letters "")
  foreach(begin RANGE 0 60 6)  # three bytes are four letters; of the last group there are two
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
# The text of the page's own parts last, since they may have an @ anywhere.
string(REPLACE "@STYLE_HASH@" "${style_hash}" page "${page}")
string(REPLACE "@SCRIPT_HASH@" "${script_hash}" page "${page}")
string(REPLACE "@STYLE@" "${style}" page "${page}")
string(REPLACE "@SCRIPT@" "${script}" page "${page}")
file(WRITE ${OUTPUT} "${page}")
