// Package fence makes an operator pause after its process was suspended, because another replica may have become the leader.
package fence
