"""Search in conversations: one way for a session, a scope of sessions and a namespace, the same on every store.

The modules in the order in which a query travels:

- A model asks with `tools`, in its `scopes`; a user calls `search`. `request` checks the arguments, and `query` parses
  the text, with the `tokeniser`, which knows `languages`, and `fields` for what is no word.
- `pipeline` takes the search from here: what the `index` has, which `corpus` of texts is searched, which texts are
  `candidates`, which sessions show them (`visibility`), how they score (`ranking`), and the `hits` with their
  `snippets`. For a model, `rendering` makes a text of them.
- In the background, a `follower` of the change log reads the `texts` that were written, for the `index` and, with
  embeddings, for the `vectors`."""
