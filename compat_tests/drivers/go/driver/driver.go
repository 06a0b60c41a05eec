// Package driver is what the drivers in Go share: the conversation that
// compat_tests/drivers/README.md describes. A driver for a library gives it a handler for each request
// that it can carry out.
package driver

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"
)

// Handler carries out a request, given as its line.
type Handler func(line []byte) (any, error)

// Library is a client library as a driver offers it.
type Library struct {
	Client string
	// Module is the library's path as a Go module; its version is the one it was built with.
	Module string
	Can    []string
	// Broken says, as README.md has it, what does not work with any broker.
	Broken   map[string]string
	Requests map[string]Handler
	// Name gives the name that the library has for an error, or "".
	Name func(err error) string
	// Close ends all clients, at the end of the input.
	Close func() error
}

// Nothing is the result of a request that only succeeds.
type Nothing struct{}

// Failure is an error as a response or a record's placement tells it.
type Failure struct {
	Name    string `json:"name"`
	Message string `json:"message"`
}

type response struct {
	ID     json.RawMessage `json:"id"`
	Result any             `json:"result,omitempty"`
	Error  *Failure        `json:"error,omitempty"`
}

// Take makes a handler of a function that wants the arguments of its request.
func Take[A, R any](carryOut func(A) (R, error)) Handler {
	return func(line []byte) (any, error) {
		var arguments A
		if err := json.Unmarshal(line, &arguments); err != nil {
			return nil, err
		}
		return carryOut(arguments)
	}
}

// Do makes a handler of a function that has no result.
func Do[A any](carryOut func(A) error) Handler {
	return Take(func(arguments A) (Nothing, error) { return Nothing{}, carryOut(arguments) })
}

// Ask makes a handler of a function without arguments.
func Ask[R any](carryOut func() (R, error)) Handler {
	return func([]byte) (any, error) { return carryOut() }
}

// Order makes a handler of a function with neither arguments nor a result.
func Order(carryOut func() error) Handler {
	return Ask(func() (Nothing, error) { return Nothing{}, carryOut() })
}

// Failure describes an error: by the library's name for it, else by the type of the innermost error
// that isn't just a text.
func (l *Library) Failure(err error) *Failure {
	name := l.Name(err)
	for inner := err; name == "" && inner != nil; inner = errors.Unwrap(inner) {
		switch inner.(type) {
		case interface{ Unwrap() error }:
		default:
			name = strings.TrimLeft(fmt.Sprintf("%T", inner), "*")
		}
	}
	if name == "" {
		name = fmt.Sprintf("%T", err)
	}
	return &Failure{Name: name, Message: err.Error()}
}

// Main is a driver's whole life.
func (l *Library) Main() {
	err := l.converse(os.Stdin, os.Stdout)
	if err := errors.Join(err, l.Close()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// Servers is where to find the cluster: the program's only argument.
func Servers() []string {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: DRIVER HOST:PORT[,HOST:PORT...]")
		os.Exit(2)
	}
	return strings.Split(os.Args[1], ",")
}

// ClientID is of all clients; empty for the library's own.
func ClientID() string {
	return os.Getenv("KAVKA_COMPAT_CLIENT_ID")
}

func (l *Library) converse(from io.Reader, to io.Writer) error {
	lines := bufio.NewReader(from)
	for {
		line, err := lines.ReadBytes('\n')
		if len(bytes.TrimSpace(line)) > 0 {
			if err := l.answer(line, to); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (l *Library) answer(line []byte, to io.Writer) error {
	var request struct {
		ID json.RawMessage `json:"id"`
		Do string          `json:"do"`
	}
	if err := json.Unmarshal(line, &request); err != nil {
		return err
	}
	answer := response{ID: request.ID}
	result, err := l.carryOut(request.Do, line)
	if err != nil {
		answer.Error = l.Failure(err)
	} else {
		answer.Result = result
	}
	data, err := json.Marshal(answer)
	if err != nil {
		return err
	}
	_, err = to.Write(append(data, '\n'))
	return err
}

// carryOut makes an error of a panic too: the library's, or one of a request without its client.
func (l *Library) carryOut(what string, line []byte) (result any, err error) {
	defer func() {
		if panicked := recover(); panicked != nil {
			debug.PrintStack()
			err = fmt.Errorf("panic: %v", panicked)
		}
	}()
	if what == "hello" {
		return l.hello()
	}
	handler, known := l.Requests[what]
	if !known {
		return nil, fmt.Errorf("%s can't do %q", l.Client, what)
	}
	return handler(line)
}

func (l *Library) hello() (any, error) {
	built, ok := debug.ReadBuildInfo()
	if !ok {
		return nil, errors.New("the program doesn't tell how it was built")
	}
	for _, module := range built.Deps {
		if module.Path == l.Module {
			version := strings.TrimPrefix(module.Version, "v")
			found := map[string]any{"client": l.Client, "version": version, "can": l.Can}
			if l.Broken != nil {
				found["broken"] = l.Broken
			}
			return found, nil
		}
	}
	return nil, fmt.Errorf("built without %s", l.Module)
}
