/** Light or dark: as the system says, until somebody chooses. */

const STORED = 'frontdesk.theme';
const system = matchMedia('(prefers-color-scheme: dark)');

class Theme {
  #chosen = $state(localStorage.getItem(STORED));
  #system = $state(system.matches);
  dark = $derived(this.#chosen === null ? this.#system : this.#chosen === 'dark');

  constructor() {
    system.addEventListener('change', () => {
      this.#system = system.matches;
      this.#show();
    });
    this.#show();
  }

  flip(): void {
    this.#chosen = this.dark ? 'light' : 'dark';
    localStorage.setItem(STORED, this.#chosen);
    this.#show();
  }

  #show(): void {
    document.documentElement.dataset.theme = this.dark ? 'dark' : 'light';
  }
}

export const theme = new Theme();
