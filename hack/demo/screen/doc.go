// Package screen is where the commands of hack/ tell people what they do, and show what operators log.
package screen
